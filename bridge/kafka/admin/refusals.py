"""Errors of admin calls in the broker's own words, which name the config or the limit that was broken."""

from __future__ import annotations

import re

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol.errors import failure, of_code

_USER = re.compile(r"Session\(([^,()]+),")
"""As brokers print the request that they refuse."""


def refusal(code: int, words: str, doing: str, right: str) -> KafkaFailure | None:
    """Returns the failure for an error code, None for none. `words`: the broker's message, "" for none; for a missing
    right only the user's name is taken from it."""
    failed = of_code(code, doing, right)
    if failed is None or not words:
        return failed
    if failed.fault is KafkaFault.NOT_AUTHORIZED:
        user = _USER.search(words)
        return failed if user is None else failure(failed.fault, doing, f"{user[1]} may not: grant {right}")
    return failure(failed.fault, doing, words)
