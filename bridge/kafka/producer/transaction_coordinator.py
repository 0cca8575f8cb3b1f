"""Requests to the transaction coordinator of one transactional id: DescribeTransactions, InitProducerId,
AddPartitionsToTxn, EndTxn."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import TypeVar

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import RawSettings
from bridge.kafka.consumer.log_bounds import open_transactions
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import produce_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, not_allowed_to_write, of_code
from bridge.kafka.protocol.produce_requests import DescribedTransaction, ProducerIdAndEpoch
from bridge.kafka.protocol.wire import Call, Reader
from bridge.model.values import TopicPartition

T = TypeVar("T")

TRANSACTION_TIMEOUT_MS = 15_000
"""transaction.timeout.ms for a cluster near by, with a short round trip."""
_MAY_HEAL = frozenset({KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT, KafkaFault.LEADER_MOVED})
_SHORT, _LONG = (0.002, 0.02), (0.05, 1.0)
"""Seconds: the first pause before a try and the longest."""
_NOTHING_OPEN = {Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING}
"""What an abort is answered where there is nothing to abort. An id that was not used for
transactional.id.expiration.ms is forgotten, which no id with an open transaction is."""
_COMMITTED, _ONGOING, _EMPTY = {"PrepareCommit", "CompleteCommit"}, "Ongoing", "Empty"
_ABORTED = {"PrepareEpochFence", "PrepareAbort", "CompleteAbort"}
"""States of a transaction, as Kafka's TransactionState names them."""
_COMMITTED_BEFORE, _ENDS_HANGING = 1, 2
"""Bits of transaction.timeout.ms, the one number that a coordinator keeps for us (see Coordinator)."""
_ROUND_TRIPS = 16
"""Round trips that are added to the timeout: a transaction takes some four, beside those in which records are sent."""
_MOST_TIMEOUT_MS = 240_000
"""Well below the transaction.max.timeout.ms of brokers, 15 minutes by default."""


def transaction_timeout_ms(near_ms: int, round_trip: float, patience: int) -> int:
    """Returns transaction.timeout.ms for a cluster that is `round_trip` seconds away; `patience`: how many times as
    long as usual a transaction may take. No longer than needed: until it ends, the open transaction of a producer that
    has died hides what follows it from read_committed readers."""
    stretched = patience * (near_ms + _ROUND_TRIPS * 1000 * round_trip)
    return max(near_ms, min(_MOST_TIMEOUT_MS, int(stretched)))


class StillEnding(KafkaFailure):
    """The last transaction of a transactional id can't be ended everywhere yet: the id can't be used before."""


class Coordinator:
    """Sends the requests of one transactional id to its coordinator. Tries each until there is a response or the time
    is up: each of them may be sent twice.

    How the id's last transaction has ended is known until somebody takes the id over, and whoever does that may die
    before it has ended what hangs of it. So it is kept with the coordinator, in the last bits of the timeout:
    _COMMITTED_BEFORE where the last transaction before this epoch was committed, and _ENDS_HANGING where the epoch only
    ends such a one: who finds that transaction open commits it, where taking over the id would abort it.
    """

    def __init__(self, client: NetworkClient, transactional_id: str, ends_within: float = math.inf) -> None:
        """`ends_within`: seconds that the end of a transaction may take before what follows it raises StillEnding."""
        self._client = client
        self.transactional_id = transactional_id
        self._ends_within = ends_within
        self._node: int | None = None
        self._holder = ProducerIdAndEpoch()
        """As `init` has returned it last."""
        self.last_committed = False
        """Whether the id's last transaction before our epoch is committed, whoever had it. False where it is aborted,
        as the one that is open when we take the id over; and where the coordinator doesn't tell, before Kafka 3.0."""

    async def init(
        self, timeout_ms: Callable[[], int], id_and_epoch: ProducerIdAndEpoch, within: float
    ) -> ProducerIdAndEpoch:
        """Returns a new producer id and epoch; aborts the transactional id's open transaction and fences older holders.
        With the id and epoch that we had, only if nobody has taken over meanwhile (else FENCED); without, in any case.
        Calls `timeout_ms` once the coordinator is found: the client knows then how far away the cluster is."""
        # With each new epoch: the epoch's own transactions have ended since the last one.
        self.last_committed = await self._find_outcome(within)
        return await self._init(timeout_ms, id_and_epoch, within)

    async def _init(
        self,
        timeout_ms: Callable[[], int],
        id_and_epoch: ProducerIdAndEpoch,
        within: float,
        *,
        ends_hanging: bool = False,
    ) -> ProducerIdAndEpoch:
        bits = (_COMMITTED_BEFORE if self.last_committed else 0) | (_ENDS_HANGING if ends_hanging else 0)

        def call() -> Call:
            # Its time must not be up before the next one takes over the id: the broker would abort it.
            timeout = _MOST_TIMEOUT_MS if ends_hanging else timeout_ms()
            timeout = timeout & ~(_COMMITTED_BEFORE | _ENDS_HANGING) | bits
            return produce_requests.init_producer_id(self.transactional_id, timeout, id_and_epoch)

        doing = f"take over transactional id {self.transactional_id}"
        self._holder = await self._ask(call, produce_requests.read_producer_id, doing, within)
        return self._holder

    async def _find_outcome(self, within: float) -> bool:
        """Returns `last_committed` of the epoch that comes next. Commits what `_init` would abort of a transaction that
        ends one which hangs."""
        last = await self.describe(within)
        if last is None:
            return False
        if last.timeout_ms & _ENDS_HANGING and last.state == _ONGOING:
            await self.end(last.id_and_epoch, within, commit=True)
        if last.timeout_ms & _ENDS_HANGING or last.state == _EMPTY:
            return bool(last.timeout_ms & _COMMITTED_BEFORE)
        return last.state in _COMMITTED

    async def has_timed_out(self, within: float) -> bool:
        """Whether the broker has aborted a transaction because its time was up, and nobody has taken over the id since:
        it raises the epoch, as for somebody else. Only of a transaction that was open for that long: an abort for who
        takes over the id looks the same while it lasts. Raises KafkaFailure."""
        last = await self.describe(within)
        next_epoch = self._holder._replace(epoch=self._holder.epoch + 1)
        return last is not None and last.id_and_epoch == next_epoch and last.state in _ABORTED

    async def describe(self, within: float) -> DescribedTransaction | None:
        """Returns the id's last transaction; None where nobody knows any."""

        def read(response: Reader) -> tuple[int, DescribedTransaction | None]:
            last = produce_requests.read_described_transactions(response).get(self.transactional_id)
            if last is None:
                return Errors.UNKNOWN_SERVER_ERROR, None
            unknown = last.error == Errors.TRANSACTIONAL_ID_NOT_FOUND
            return (Errors.NONE, None) if unknown else (last.error, last)

        def call() -> Call:
            return produce_requests.describe_transactions([self.transactional_id])

        try:
            return await self._ask(call, read, f"describe the transaction of {self.transactional_id}", within)
        except KafkaFailure as failed:
            if failed.fault is not KafkaFault.UNSUPPORTED:
                raise
            return None

    async def end_hanging(
        self,
        timeout_ms: Callable[[], int],
        id_and_epoch: ProducerIdAndEpoch,
        tps: Collection[TopicPartition],
        within: float,
        *,
        commit: bool,
    ) -> ProducerIdAndEpoch:
        """Ends what earlier transactions of the id have left open in these partitions, by a transaction without
        records; returns the producer's id and epoch from now on. It is none that `last_committed` tells of."""
        self.last_committed = await self._find_outcome(within)
        if commit:
            id_and_epoch = await self._init(timeout_ms, id_and_epoch, within, ends_hanging=True)
        await self.add(id_and_epoch, tps, within)
        await self.end(id_and_epoch, within, commit=commit)
        return await self._init(timeout_ms, id_and_epoch, within)

    async def add(
        self,
        id_and_epoch: ProducerIdAndEpoch,
        tps: Collection[TopicPartition],
        within: float,
        *,
        retry: bool = True,
    ) -> None:
        """Makes partitions part of the transaction, which begins with the first. `retry`: looks for another
        coordinator, or the same one that has come back; it may have left out markers of the last transaction."""

        def read(response: Reader) -> tuple[int, None]:
            errors = produce_requests.read_added_partitions(response)
            denied = [tp.topic for tp, code in errors.items() if code == Errors.TOPIC_AUTHORIZATION_FAILED]
            if denied:
                raise not_allowed_to_write(denied, doing)
            # OPERATION_NOT_ATTEMPTED says only that another partition failed.
            codes = sorted(set(errors.values()) - {Errors.NONE, Errors.OPERATION_NOT_ATTEMPTED})
            return codes[0] if codes else Errors.NONE, None

        def call() -> Call:
            return produce_requests.add_partitions(self.transactional_id, id_and_epoch, tps)

        names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(tps)[:5])
        more = " …" if len(tps) > 5 else ""
        doing = f"add {names}{more} to the transaction of {self.transactional_id}"
        await self._ask(call, read, doing, within, may_heal=_MAY_HEAL if retry else set())

    async def end(self, id_and_epoch: ProducerIdAndEpoch, within: float, *, commit: bool) -> None:
        """Ends the transaction. An abort is also right when none was begun, and while one is being committed: `init`
        then waits for that commit. Java's client ends a transaction, too, before it asks for a new epoch (KIP-360)."""

        def read(response: Reader) -> tuple[int, None]:
            code = produce_requests.read_ended_transaction(response)
            return Errors.NONE if code in _NOTHING_OPEN and not commit else code, None

        def call() -> Call:
            return produce_requests.end_transaction(self.transactional_id, id_and_epoch, commit=commit)

        await self._ask(
            call,
            read,
            f"{'commit' if commit else 'abort'} the transaction of {self.transactional_id}",
            within,
        )

    async def _ask(
        self,
        call: Callable[[], Call],
        read: Callable[[Reader], tuple[int, T]],
        doing: str,
        within: float,
        may_heal: Set[KafkaFault] = _MAY_HEAL,
    ) -> T:
        unfinished, elsewhere, since = Backoff(*_SHORT), Backoff(*_LONG), math.inf
        last = failure(KafkaFault.TIMEOUT, doing, f"No answer within {within:g} s")
        try:
            async with asyncio.timeout(within):
                while True:
                    try:
                        response = await self._client.send(await self._find(), call(), doing)
                    except KafkaFailure as error:
                        if error.fault not in may_heal:
                            raise
                        code, last = int(Errors.NOT_COORDINATOR), error
                    else:
                        code, result = read(response)
                        failed = of_code(code, doing)
                        if failed is None:
                            return result
                        if code != Errors.CONCURRENT_TRANSACTIONS and failed.fault not in may_heal:
                            raise failed
                        last = failed
                    if code == Errors.CONCURRENT_TRANSACTIONS:
                        # It takes brokers milliseconds to end the last one, where all of its partitions take a marker.
                        since = min(since, time.monotonic())
                        if time.monotonic() - since > self._ends_within:
                            raise StillEnding(last.fault, str(last))
                        await asyncio.sleep(unfinished.next())
                    else:
                        self._node = None
                        await asyncio.sleep(elsewhere.next())
        except TimeoutError:
            raise last from None

    async def _find(self) -> int:
        if self._node is None:
            doing = f"find the coordinator of transactional id {self.transactional_id}"
            response = await self._client.send(
                None, produce_requests.find_transaction_coordinator(self.transactional_id), doing
            )
            code, node = produce_requests.read_transaction_coordinator(response)
            failed = of_code(code, doing)
            if failed is not None:
                raise failed
            self._node = node
        return self._node


async def fence(
    settings: RawSettings,
    transactional_ids: Sequence[str],
    within: float = 30.0,
    *,
    partitions: Sequence[TopicPartition] = (),
    required: TopicPartition | None = None,
    left: Mapping[str, ProducerIdAndEpoch] | None = None,
) -> set[str]:
    """Fences all producers that have one of the ids, and aborts what they have open, before it returns. What their last
    transactions have left open in `partitions` without a marker, it ends as these transactions have ended
    (TransactionalProducer.end_hanging); those without a leader are passed over, but for the one that is `required`.
    Passes over ids whose holder has left them, with this producer id and epoch, while their last transactions are still
    ending, and returns them. Raises KafkaFailure."""
    left = left or {}

    async def init(transactional_id: str) -> tuple[Coordinator, ProducerIdAndEpoch] | None:
        coordinator = Coordinator(client, transactional_id)
        if transactional_id in left:
            last = await coordinator.describe(within)
            if last is not None and last.ending and last.id_and_epoch == left[transactional_id]:
                return None
        return coordinator, await coordinator.init(
            lambda: TRANSACTION_TIMEOUT_MS, ProducerIdAndEpoch(), within
        )

    async def end(coordinator: Coordinator, taken: ProducerIdAndEpoch) -> None:
        await coordinator.end_hanging(
            lambda: TRANSACTION_TIMEOUT_MS, taken, hanging, within, commit=coordinator.last_committed
        )

    client = NetworkClient(settings)
    try:
        fenced = [row for row in await _all_of(map(init, transactional_ids)) if row is not None]
        if partitions:
            await client.metadata(sorted({tp.topic for tp in partitions}))
            hanging, failed = await open_transactions(client, partitions)
            if required in failed:
                raise failed[required]
            if hanging:
                await _all_of(end(*row) for row in fenced)
        return {*transactional_ids} - {coordinator.transactional_id for coordinator, _ in fenced}
    finally:
        await client.close()


async def _all_of(work: Iterable[Awaitable[T]]) -> list[T]:
    """Waits for all of it; then raises the first error, if any."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
