"""Operations on connectors, as routes ask for them: refused at once where nobody would carry them out."""

from __future__ import annotations

from bridge.errors import NotAnswered, OperationRefused
from bridge.service.service import Service
from bridge.service.state.halts import halt
from bridge.service.state.rounds_state import RoundsState
from connectors.base import Arguments, Operation


async def operate(
    service: Service, name: str, operation: Operation, arguments: Arguments, seconds: float
) -> Arguments:
    """The answer of the running instance. Raises NotFound, OperationRefused where the connector does not run,
    NotAnswered, and whatever the instance answers instead."""
    known = service.table.connector(name)
    if not known.active():
        raise OperationRefused(halt(known).detail)
    state = service.rounds.state
    if state is not RoundsState.RUNNING:
        raise NotAnswered(f"the process that asks the clusters is {state.value}; ask again")
    return await service.rounds.operate(name, known.generation, operation, arguments, seconds)
