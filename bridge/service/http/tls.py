"""TLS whose certificate, key and client CA may be replaced while it is in use."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Self


class CurrentContext(ssl.SSLContext):
    """Gives each new connection to the context of now. A context of its own for each set of files: sessions of an older
    one are not taken up again, or a client whose CA was taken out could go on by them."""

    _current: Callable[[], ssl.SSLContext]

    def __new__(cls, current: Callable[[], ssl.SSLContext]) -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._current = current
        return made

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self._current().wrap_bio(*args, **kwargs)
