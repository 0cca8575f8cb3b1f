"""Operations on running connectors: requested over HTTP, carried out by an instance in the rounds process.

    HTTP process  ─OPERATION─▶         rounds process  ─operate()─▶  instance
    HTTP process  ◀─OPERATION_RESULT─  rounds process  ◀───────────  instance

A request is sent once. Where the rounds process or the instance ends before it has answered, the error says so and the
client sends the request again: every operation is idempotent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import NamedTuple

from bridge.errors import BridgeError, ErrorCode, NotAnswered
from bridge.service.ipc.messages import shortened
from connectors.base import Arguments


class OperationRequest(NamedTuple):
    """An operation for an instance to carry out; `number` identifies it in the result."""

    number: int
    name: str
    generation: int
    operation: str
    arguments: Arguments


class OperationFailed(BridgeError):
    """An error that the rounds process has raised."""

    def __init__(self, message: str, code: str, status: int, *, retriable: bool) -> None:
        super().__init__(message, code=ErrorCode(code))
        self.status, self.retriable = status, retriable


def pack_operation(request: OperationRequest) -> bytes:
    return json.dumps(request).encode()


def unpack_operation(payload: bytes) -> OperationRequest:
    return OperationRequest(*json.loads(payload))


def pack_operation_result(number: int, result: Arguments | BridgeError) -> bytes:
    if not isinstance(result, BridgeError):
        return json.dumps([number, result, None]).encode()
    text = shortened(str(result))
    return json.dumps([number, None, [text, result.code, result.status, result.retriable]]).encode()


def unpack_operation_result(payload: bytes) -> tuple[int, Arguments | BridgeError]:
    number, result, error = json.loads(payload)
    if error is None:
        return number, result
    message, code, status, retriable = error
    return number, OperationFailed(message, code, status, retriable=retriable)


class OpenOperations:
    """The operations without a result, in the HTTP process. `send` sends a request to the rounds process."""

    def __init__(self, send: Callable[[OperationRequest], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[Arguments]] = {}

    async def operate(
        self, name: str, generation: int, operation: str, arguments: Arguments, seconds: float
    ) -> Arguments:
        """Requests an operation, and waits for the instance's answer. Raises what it raised, and NotAnswered after
        `seconds`."""
        number = next(self._numbers)
        future: asyncio.Future[Arguments] = asyncio.get_running_loop().create_future()
        self._open[number] = future
        try:
            self._send(OperationRequest(number, name, generation, operation, arguments))
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            text = f"connector {name} did not finish the operation {operation} within {seconds:g} s; it may still do so"
            raise NotAnswered(text) from None
        finally:
            del self._open[number]

    def answered(self, payload: bytes) -> None:
        number, result = unpack_operation_result(payload)
        future = self._open.get(number)
        if future is None or future.done():
            return  # the request has timed out
        if isinstance(result, BridgeError):
            future.set_exception(result)
        else:
            future.set_result(result)

    def lost(self) -> None:
        """Fails all of them: the rounds process has ended."""
        for future in self._open.values():
            if not future.done():
                future.set_exception(
                    NotAnswered("the rounds process ended during the operation; send the request again")
                )
