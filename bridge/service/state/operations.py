"""What operators have running connectors do: asked for over HTTP, carried out by an instance in the rounds process.

    HTTP process  ─OPERATE─▶   rounds process  ─operate()─▶  instance
    HTTP process  ◀─OPERATED─  rounds process  ◀───────────  instance

An operation is asked for once. Where the rounds process or the instance ends before it has answered the error says so,
and whoever asked repeats it: every operation is idempotent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import NamedTuple

from bridge.errors import BridgeError, ErrorCode, NotAnswered
from connectors.base import Arguments


class OperationRequest(NamedTuple):
    """An operation of an instance; `number` names it in the answer."""

    number: int
    name: str
    generation: int
    operation: str
    arguments: Arguments


class OperationFailed(BridgeError):
    """An error of the rounds process, as it was raised there."""

    def __init__(self, message: str, code: str, status: int, *, retriable: bool) -> None:
        super().__init__(message, code=ErrorCode(code))
        self.status, self.retriable = status, retriable


def pack_operation(order: OperationRequest) -> bytes:
    return json.dumps(order).encode()


def unpack_operation(payload: bytes) -> OperationRequest:
    return OperationRequest(*json.loads(payload))


def pack_operation_result(number: int, answer: Arguments | BridgeError) -> bytes:
    if not isinstance(answer, BridgeError):
        return json.dumps([number, answer, None]).encode()
    return json.dumps([number, None, [str(answer), answer.code, answer.status, answer.retriable]]).encode()


def unpack_operation_result(payload: bytes) -> tuple[int, Arguments | BridgeError]:
    number, answer, error = json.loads(payload)
    if error is None:
        return number, answer
    message, code, status, retriable = error
    return number, OperationFailed(message, code, status, retriable=retriable)


class OpenOperations:
    """Of the HTTP process: those that are not answered yet. `send` takes an order to the rounds process."""

    def __init__(self, send: Callable[[OperationRequest], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Arguments]] = {}

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        """The instance's answer. Raises what it raised, and NotAnswered after `seconds`."""
        number = next(self._numbers)
        future: asyncio.Future[Arguments] = asyncio.get_running_loop().create_future()
        self._open[number] = future
        try:
            self._send(OperationRequest(number, name, generation, operation, arguments))
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            text = f"connector {name} has not ended the operation {operation} within {seconds:g} s; it may still do so"
            raise NotAnswered(text) from None
        finally:
            del self._open[number]

    def answered(self, payload: bytes) -> None:
        number, answer = unpack_operation_result(payload)
        future = self._open.get(number)
        if future is None or future.done():
            return  # nobody waits any more
        if isinstance(answer, BridgeError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    def lost(self) -> None:
        """The rounds process has ended: none of them is answered."""
        for future in self._open.values():
            if not future.done():
                future.set_exception(
                    NotAnswered("the rounds process ended during the operation; ask for it again")
                )
