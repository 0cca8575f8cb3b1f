"""Serves TLS with a certificate, key and client CA that may be replaced while the service runs."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Self


class CurrentContext(ssl.SSLContext):
    """Uses the current context for each new connection. Each set of files has a context of its own, so that TLS
    sessions of an older one are not resumed: a client whose CA was removed could continue with them."""

    _current: Callable[[], ssl.SSLContext]

    def __new__(cls, current: Callable[[], ssl.SSLContext]) -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._current = current
        return made

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self._current().wrap_bio(*args, **kwargs)
