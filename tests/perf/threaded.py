"""A loop in a thread of its own, for the time of a block."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Threaded:
    """Runs `_run` in a thread until `_over` is set; what it raises, the end of the block raises."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(60)
        if self._failed and error is None:
            raise self._failed[0]

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._failed.append(error)

    def _run(self) -> None:
        raise NotImplementedError
