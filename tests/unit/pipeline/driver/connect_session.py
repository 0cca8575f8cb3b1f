"""A Spark Connect server that nobody has to start."""

from __future__ import annotations


class Server:
    """A session of a Spark Connect server, as Spark's client has it."""

    def __init__(self, version: str) -> None:
        self.version, self.stopped = version, False
        self.client = self

        self.conf = self
        self.set = dict[str, str]().__setitem__

    def get(self, key: str, default: str) -> str:
        return default

    def set_retry_policies(self, policies: object) -> None: ...

    def stop(self) -> None:
        self.stopped = True
