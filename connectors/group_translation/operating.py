"""Carries out operators' requests to a connector of groups: refresh, move groups, roll them back, give them back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bridge.errors import OperationRefused
from bridge.model.state_records.move_record import MoveRow, NotBegunMoved
from bridge.model.values import WITH_MEMBERS
from bridge.protocol.messages import GroupReport
from connectors.base import Arguments, Operation
from connectors.cluster_away import ClusterAway
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.listed_groups import ListedGroups
from connectors.group_translation.move_plan import MoveFacts
from connectors.group_translation.moves import Moves
from connectors.requested import RequestedRounds, not_offered, refresh_answer

_DISABLED = (
    "failover needs the readiness topic on the target: connector {} must not have emit.group-readiness.enabled=false, "
    "nor dry.run=true"
)


class GroupOperations:
    """The operations of one connector. `forget` drops what was committed for a group before it was moved."""

    def __init__(
        self,
        name: str,
        options: GroupOptions,
        rounds: RequestedRounds[ClusterAway | None],
        groups: ListedGroups,
        moves: Moves,
        report_of: Callable[[str], GroupReport | None],
        forget: Callable[[str], None],
    ) -> None:
        self._name, self._options, self._rounds, self._groups, self._moves = (
            name,
            options,
            rounds,
            groups,
            moves,
        )
        self._report_of, self._forget = report_of, forget
        self.between_rounds = asyncio.Lock()
        """Held by a round, and by an operation that must not run during one."""
        self._operations: dict[str, Callable[[Arguments], Awaitable[Arguments]]] = {
            Operation.REFRESH: self._refresh,
            Operation.MOVE: self._move,
            Operation.ROLL_BACK: self._roll_back,
            Operation.GIVE_BACK: self._give_back,
        }

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        """See Instance.operate."""
        carry_out = self._operations.get(operation)
        if carry_out is None:
            raise not_offered(self._name, operation)
        try:
            return await carry_out(arguments)
        except ClusterAway as away:
            raise away.with_side() from None

    async def _refresh(self, arguments: Arguments) -> Arguments:
        """Runs a round. `without_source`: one that the source did not answer counts too, and `away` has the error."""
        before = set(self._groups.all)
        away = await self._rounds.round()
        if away is not None and not (arguments.get("without_source") and away.on_source):
            raise away
        return refresh_answer(before, self._groups.all) | ({"away": str(away.with_side())} if away else {})

    async def _move(self, arguments: Arguments) -> Arguments:
        self._check_enabled()
        async with self.between_rounds:
            await self._moves.follow()
            facts = {name: facts_of(each) for name, each in arguments["groups"].items()}
            dry_run = bool(arguments.get("dry_run"))
            moved, refused = await self._moves.move(facts, self._report_of, dry_run=dry_run)
            self._moves.publish()
        known = self._groups.all
        return {
            "moved": {name: record.fields() for name, record in moved.items()},
            "refused": {name: list(why) for name, why in refused.items()},
            "membersOnSource": sorted(
                name for name in facts if name in known and known[name].state in WITH_MEMBERS
            ),
        }

    async def _roll_back(self, arguments: Arguments) -> Arguments:
        self._check_enabled()
        async with self.between_rounds:
            await self._moves.follow()
            left = await self._moves.roll_back(arguments["groups"])
            self._moves.publish()
        return {"left": {name: [each.fields() for each in some] for name, some in left.items()}}

    async def _give_back(self, arguments: Arguments) -> Arguments:
        self._check_enabled()
        async with self.between_rounds:
            await self._moves.follow()
            pairs = {name: [MoveRow.read(row) for row in rows] for name, rows in arguments["groups"].items()}
            await self._moves.give_back(pairs)
            for name in pairs:
                self._forget(name)
            self._moves.publish()
        return {}

    def _check_enabled(self) -> None:
        if not self._options.readiness_enabled:
            raise OperationRefused(_DISABLED.format(self._name))


def facts_of(given: Any) -> MoveFacts:
    """Reads what the service knows of a group that is to be moved."""
    missing = {(topic, partition): records for topic, partition, records in given["missing"]}
    not_begun = tuple(NotBegunMoved(*row) for row in given.get("not_begun", ()))
    return MoveFacts(given["as_of_ms"], given["source_away"], given["missing_since_ms"], missing, not_begun)
