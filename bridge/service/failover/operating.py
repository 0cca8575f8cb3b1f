"""Sends operations to running connectors, and refuses those that nobody could carry out."""

from __future__ import annotations

from bridge.errors import ErrorCode, NotAnswered, OperationRefused
from bridge.service.service import Service
from bridge.service.state.not_running import why_not_running
from bridge.service.state.rounds_state import RoundsState
from connectors.base import Arguments, Operation


async def operate(
    service: Service, name: str, operation: Operation, arguments: Arguments, seconds: float
) -> Arguments:
    """Returns the answer of the running instance. Raises NotFound, OperationRefused where the connector does not run,
    NotAnswered, and the errors of the instance."""
    connector = service.table.connector(name)
    if not connector.active():
        # Of groups of a connector that does not run readiness says cannot_tell too.
        moves = operation not in (Operation.REFRESH, Operation.SKIP)
        code = ErrorCode.CANNOT_TELL if moves else ErrorCode.REFUSED
        raise OperationRefused(why_not_running(connector).detail, code=code)
    state = service.rounds.state
    if state is not RoundsState.RUNNING:
        raise NotAnswered(f"the rounds process is {state.value}; send the request again")
    return await service.rounds.operate(name, connector.generation, operation, arguments, seconds)
