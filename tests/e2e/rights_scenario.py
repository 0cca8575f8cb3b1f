"""A flow between two clusters that allow nothing but what the table of rights says: each connector has a user of its
own, by certificate on the source (mutual TLS) and by SCRAM over TLS on the target."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from bridge.doctor.checks import examine
from bridge.doctor.collecting import collect
from bridge.doctor.needs import RIGHTS, On, Right
from bridge.kafka.config.settings import StaticClientCheck
from bridge.local import BridgeService, Broker, ConnectWorker, LocalStack, Security
from bridge.local.security import TlsFiles, make_tls
from bridge.model.values import Side
from connectors.registry import KINDS
from tests.e2e.flow import LEASE_MS, ServiceClient
from tests.support import admin, allow, bounds, commit, create_topic, eventually, produce, stock_config
from tests.support.records import Record, last
from tests.support.topics import drop_rule, has_rule

WAIT = 90.0
PASSWORD = "wonder-4c1e"
A, B = Side.SOURCE, Side.TARGET
NAME = {"source": "copy", "group_offset": "groups", "checkpoint": "checkpoints", "heartbeat": "beats"}
CONNECTS = "connects"
"""The user of Connect's producer."""
CLASSES = {
    "source": "BridgeMirrorSourceConnector",
    "group_offset": "MirrorGroupOffsetConnector",
    "checkpoint": "BridgeMirrorCheckpointConnector",
    "heartbeat": "BridgeMirrorHeartbeatConnector",
}
TOPICS, LATER = ("orders", "payments"), "later"
GROUPS = {"group_offset": ("billing", "billing-2"), "checkpoint": ("shipping", "shipping-2")}
"""The first of each reads orders, the second payments."""
NAMES: Mapping[On, Sequence[str]] = {
    On.CLUSTER: ["kafka-cluster"],
    On.STATE: ["mm2-offset-runs.A.internal", "mm2-layout.A.internal", "mm2-gaps.A.internal"],
    On.RUNS: ["mm2-offset-runs.A.internal"],
    On.READINESS: ["mm2-group-readiness.A.internal"],
    On.SYNCS: ["mm2-offset-syncs.B.internal"],
    On.CHECKPOINTS: ["A.checkpoints.internal"],
    On.OPPOSITE: ["B.checkpoints.internal", "mm2-group-readiness.B.internal"],
    On.HEARTBEATS: ["heartbeats"],
    On.OTHERS_IDS: ["mirror-bridge-A-copy-"],
}
_SOON = {
    f"{what}.interval.seconds": "1"
    for what in (
        *("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls"),
        *("sync.group.offsets", "emit.checkpoints", "emit.heartbeats"),
    )
}
_TYPES = {"cluster": "BROKER", "topic": "TOPIC", "group": "GROUP", "transactional id": "TRANSACTIONAL_ID"}


class Case(NamedTuple):
    """One right of one connector, on one name. `said` is for whoever reads a failure."""

    kind: str
    right: Right
    name: str

    @property
    def side(self) -> Side:
        return self.right.side or A

    @property
    def said(self) -> str:
        on = "the cluster" if self.right.on is On.CLUSTER else self.name
        return f"{self.right.operation} on {on} of the {self.side.value}, for {self.kind}"

    def in_line(self, lines: Sequence[str]) -> bool:
        """Whether one of them names operation and resource."""
        on = "the cluster" if self.right.on is On.CLUSTER else self.name
        return any(self.right.operation in line and on in line for line in lines)


@dataclass(frozen=True)
class RightsScenario:
    source: Broker
    target: Broker
    worker: ConnectWorker
    service: BridgeService
    tls: TlsFiles
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _granted: set[Case] = field(default_factory=set)

    @staticmethod
    def of(stack: LocalStack, directory: Path) -> RightsScenario:
        tls = make_tls(directory, clients=[*KINDS, CONNECTS])
        source = stack.broker("rights-a", security=Security(tls=tls, authorizer=True))
        users = dict.fromkeys([*KINDS, CONNECTS], PASSWORD)
        target = stack.broker("rights-b", security=Security(users=users, tls=tls, authorizer=True))
        return RightsScenario(
            source, target, stack.worker("rights", on="rights-b"), stack.service("rights-service"), tls
        )

    def end(self) -> None:
        for name in NAME.values():
            self.worker.rest.delete(name)
        for ended in (self.worker, self.service, self.source, self.target):
            ended.stop()

    @property
    def client(self) -> ServiceClient:
        return ServiceClient(self.service.url)

    @property
    def watched(self) -> tuple[object, ...]:
        return (*self.source.watched, *self.target.watched, self.worker.process, self.service.process)

    def until(self, attempt: Callable[[], object], what: str) -> None:
        eventually(attempt, WAIT, what=what, watched=self.watched)  # type: ignore[arg-type]

    # -- rights --------------------------------------------------------------------------------------------------------

    def cases(self, kind: str, topics: Sequence[str] = TOPICS) -> list[Case]:
        """What the connector needs as it is configured here."""
        settings, definition = self.config(kind), KINDS[kind].definition.keys

        def setting(key: str) -> str | None:
            return settings.get(key, definition[key].default_text) if key in definition else None

        return [
            Case(kind, right, name)
            for right in RIGHTS
            if kind in right.kinds and right.needed(setting) and right.on is not On.OTHERS_IDS
            for name in self.names(kind, right.on, topics)
        ]

    def names(self, kind: str, on: On, topics: Sequence[str]) -> Sequence[str]:
        if on is On.TOPICS:
            return topics
        if on is On.COPIES:
            return [f"A.{topic}" for topic in topics]
        if on is On.GROUPS:
            return GROUPS[kind]
        return [f"mirror-bridge-A-{NAME[kind]}-"] if on is On.IDS else NAMES[on]

    def grant(self, cases: Iterable[Case]) -> None:
        fresh = [case for case in cases if case not in self._granted]
        for side in Side:
            rules = [self._rule(case) for case in fresh if case.side is side]
            if rules:
                client = admin(self._broker(side).bootstrap)
                for done in client.create_acls(rules).values():
                    done.result(WAIT)
                self.until(partial(has_rule, client, rules[-1]), "ACLs")
        self._granted.update(fresh)

    def take(self, case: Case) -> None:
        rule, client = self._rule(case), admin(self._broker(case.side).bootstrap)
        assert case in self._granted
        drop_rule(client, rule)
        self._granted.discard(case)

    def _rule(self, case: Case) -> AclBinding:
        user = CONNECTS if case.right.by_connect else case.kind
        prefixed = case.right.on.resource == "transactional id"
        return AclBinding(
            ResourceType[_TYPES[case.right.on.resource]],
            case.name,
            ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
            f"User:CN={user}" if case.side is A else f"User:{user}",
            "*",
            AclOperation[case.right.operation],
            AclPermissionType.ALLOW,
        )

    def _broker(self, side: Side) -> Broker:
        return self.source if side is A else self.target

    # -- connectors ----------------------------------------------------------------------------------------------------

    def config(self, kind: str, **more: str) -> dict[str, str]:
        definition = KINDS[kind].definition.keys
        given = {
            **{key: "1" for key in definition if key.endswith("replication.factor")},
            **_SOON,
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "topics": "orders,payments,later.*",
            "groups": ",".join(GROUPS.get(kind, ())),
            "sync.group.offsets.enabled": "true",
            "reverse.checkpointing.enabled": str(kind == "checkpoint").lower(),
            "heartbeats.replication.enabled": "false",
            "offset.lag.max": "0",
            "bridge.url": self.service.url,
            "bridge.task.lease.ms": str(LEASE_MS),
        }
        found = {key: value for key, value in given.items() if key in definition}
        if kind == "source":
            found["spark.master"] = "local[2]"
        if kind != "heartbeat":
            found |= self.login("source.cluster", A, kind)
        found |= self.login("target.cluster", B, kind)
        if kind in ("checkpoint", "heartbeat"):
            found |= self.login("producer.override", B, CONNECTS)
        dotted = {key.replace("_", "."): value for key, value in more.items()}
        return {"connector.class": CLASSES[kind], "tasks.max": "1", "name": NAME[kind], **found, **dotted}

    def login(self, prefix: str, side: Side, user: str) -> dict[str, str]:
        found = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.tls.authority)}
        if side is A:
            found |= {
                "bootstrap.servers": self.source.address("SSL"),
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.tls.of(user)),
            }
        else:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            found |= {
                "bootstrap.servers": self.target.address("SASL_SSL"),
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{module} required username="{user}" password="{PASSWORD}";',
            }
        return {f"{prefix}.{key}": value for key, value in found.items()}

    def start(self, kind: str) -> None:
        self.worker.rest.put(NAME[kind], self.config(kind))
        self.worker.rest.resume(NAME[kind])

    def stock_copies_first(self) -> None:
        """Stock's mirror, whom nobody asks for rights here, under the name of ours."""
        aliases = {"source_cluster_alias": "A", "target_cluster_alias": "B"}
        config = stock_config("Source", self.source, self.target, topics="orders", **aliases)
        kept = {key: value for key, value in config.items() if not key.startswith("offset-syncs")}
        rest, name = self.worker.rest, NAME["source"]
        rest.put(name, {**kept, "emit.offset-syncs.enabled": "false"})
        self.copied("orders")
        rest.stop(name)
        rest.wait_state(name, "STOPPED", tasks=0)
        self.until(lambda: bool(rest.offsets(name)), "Connect has stored where stock was")

    def refresh(self, kind: str) -> None:
        """A round now: after several that failed the next one may be half a minute away."""
        httpx.post(f"{self.service.url}/v1/connectors/{NAME[kind]}/refresh", timeout=30.0)

    # -- what goes on --------------------------------------------------------------------------------------------------

    def copied(self, topic: str) -> None:
        """A record that is produced now is copied."""
        value = b"%d" % next(self._numbers)
        produce(self.source.bootstrap, topic, [Record(value, key=value)])

        def there() -> bool:
            _, end = bounds(self.target.bootstrap, f"A.{topic}")[0]
            found = last(self.target.bootstrap, f"A.{topic}", 0, end)
            return found is not None and found.value == value

        self.until(there, f"a record of {topic} is copied")

    def commit(self, group: str, *topics: str) -> int:
        """Further than it was."""
        at = next(self._numbers)
        commit(self.source.bootstrap, group, {(topic, 0): at for topic in topics})
        return at

    def synced(self, kind: str, group: str, *topics: str) -> None:
        """Where the group is committed now it is translated to, and stands."""
        at = self.commit(group, *topics)

        def there() -> None:
            report = self.client.report(group, NAME[kind])
            rows = {row["topic"]: row for row in report["partitions"]}
            assert report["ready"], report
            assert all(rows[topic]["committed"] == at for topic in topics), report

        self.until(there, f"{group} is synced at {at}")

    def well(self, kind: str) -> bool:
        """Nothing is wrong now but what is told of gaps for a day."""
        errors = self.client.status(NAME[kind])["errors"]
        assert all("truncated" in error for error in errors), errors
        return True

    def named(self, case: Case, _begun: int = 0) -> bool:
        """In the connector's status, and in health as well, or in the report of a group; no task has failed."""
        errors = self.client.status(NAME[case.kind])["errors"]
        (health,) = (each for each in self.client.health()["connectors"] if each["name"] == NAME[case.kind])
        reports = [self.client.report(group, NAME[case.kind]) for group in GROUPS.get(case.kind, ())]
        said = [str(row["detail"].get("said")) for report in reports for row in report["partitions"]]
        assert case.in_line([*said, *(error for error in errors if error in health["errors"])]), (
            errors,
            said,
        )
        assert [task["state"] for task in self.worker.rest.status(NAME[case.kind])["tasks"]] == ["RUNNING"]
        return True

    def logged(self, case: Case, begun: int) -> bool:
        """By the service, since its log was so long."""
        return case.in_line(self.service.process.log.read_bytes()[begun:].decode().splitlines())

    def failed(self, case: Case) -> None:
        """By Connect."""
        (task,) = self.worker.rest.status(NAME[case.kind])["tasks"]
        assert task["state"] == "FAILED", task
        assert case.name in task["trace"], task["trace"]

    def doctor(self, kind: str, **more: str) -> list[str]:
        """What the doctor finds of rights."""
        props = self.config(kind, **more)
        facts = asyncio.run(collect(KINDS[kind], NAME[kind], props, StaticClientCheck()))
        found = [each for each in examine(facts) if each.check == "rights" and each.severity.value != "ok"]
        return [f"{each.found} ({each.severity.value})" for each in found]


def prepare(scenario: RightsScenario) -> None:
    """Topics with records, and what others would have made."""
    for topic in TOPICS:
        create_topic(scenario.source.bootstrap, topic)
        values = [b"first-%d" % number for number in range(900)]
        produce(scenario.source.bootstrap, topic, [Record(value, key=value) for value in values])
    for first, second in GROUPS.values():
        commit(scenario.source.bootstrap, first, {("orders", 0): 1})
        commit(scenario.source.bootstrap, second, {("payments", 0): 1})
    for topic in NAMES[On.OPPOSITE]:
        create_topic(scenario.source.bootstrap, topic, 1, {"cleanup.policy": "compact"})
    allow(scenario.source.bootstrap, "User:reader", "orders", "READ")
