"""A flow between two clusters that allow nothing but what the table of rights says: each connector has a user of its
own, by certificate on A (mutual TLS) and by SCRAM over TLS on B."""

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
from bridge.doctor.needs import RIGHTS, By, On, Right
from bridge.kafka.config.settings import StaticClientCheck
from bridge.local import (
    NO_AUTHORITIES,
    BridgeService,
    Broker,
    ConnectClient,
    ConnectWorker,
    LocalStack,
    Security,
)
from bridge.local.security import TlsFiles, make_tls
from bridge.model.values import Side
from connectors.registry import KINDS
from tests.e2e.flow import LEASE_MS, ServiceClient
from tests.support import admin, allow, bounds, commit, create_topic, eventually, produce, stock_config
from tests.support.records import Record, last
from tests.support.topics import drop_rule, has_rule
from tests.support.waits import WAIT

PASSWORD = "wonder-4c1e"
A, B = Side.SOURCE, Side.TARGET


class Role(NamedTuple):
    """A connector of the scenario. Its role is its user's name too. `home`: from B to A."""

    kind: str
    name: str
    settings: Mapping[str, str] = {}
    home: bool = False


ROLES = {
    "source": Role("source", "copy"),
    "group_offset": Role("group_offset", "groups"),
    "checkpoint": Role("checkpoint", "checkpoints", {"reverse.checkpointing.enabled": "true"}),
    "heartbeat": Role("heartbeat", "beats"),
    "dry": Role("group_offset", "dry-groups", {"dry.run": "true"}),
    "syncs": Role(
        "checkpoint", "by-syncs", {"translation.evidence": "syncs", "sync.group.offsets.enabled": "false"}
    ),
    "back": Role("group_offset", "groups-back", {"reverse.checkpointing.enabled": "true"}, home=True),
    "heir": Role(
        "source",
        "heir",
        {"topics": "orders,payments", "bridge.take.over.from": "copy", "sync.topic.configs.enabled": "false"},
    ),
    "sink": Role("sink", "sinking", {"topics": "sunk,sunk-2,sunk-later"}),
}
NAME = {role: each.name for role, each in ROLES.items()}
CONNECTS, CONNECTS_ADMIN = "connects", "connects-admin"
"""The users of Connect's producers and consumers, and of its admin clients."""
CLASSES = {
    "source": "BridgeMirrorSourceConnector",
    "sink": "BridgeMirrorSinkConnector",
    "group_offset": "MirrorGroupOffsetConnector",
    "checkpoint": "BridgeMirrorCheckpointConnector",
    "heartbeat": "BridgeMirrorHeartbeatConnector",
}
TOPICS, LATER = ("orders", "payments"), "later"
SUNK = tuple(ROLES["sink"].settings["topics"].split(","))
GROUPS = {
    "group_offset": ("billing", "billing-2"),
    "checkpoint": ("shipping", "shipping-2"),
    "dry": ("planned", "planned-2"),
    "syncs": ("shipped", "shipped-2"),
    "back": ("returning", "returning-2"),
}
"""The first of each reads orders, the second payments."""
MOVED = 400
"""Offsets that the returning groups' consumers come to on B are above this, where no other group ever is on A."""
NAMES: Mapping[On, Sequence[str]] = {
    On.CLUSTER: ["kafka-cluster"],
    On.STATE: ["mm2-offset-runs.A.internal", "mm2-layout.A.internal", "mm2-gaps.A.internal"],
    On.RUNS: ["mm2-offset-runs.A.internal"],
    On.READINESS: ["mm2-group-readiness.A.internal"],
    On.SYNCS: ["mm2-offset-syncs.B.internal"],
    On.CHECKPOINTS: ["A.checkpoints.internal"],
    On.OPPOSITE: ["B.checkpoints.internal", "mm2-group-readiness.B.internal"],
    On.OTHER_FLOWS: [],
    On.HEARTBEATS: ["heartbeats"],
    On.OTHERS_IDS: ["mirror-bridge-A-copy-"],
    On.CONNECTS_GROUP: [f"connect-{NAME['sink']}"],
}
NAMES_HOME: Mapping[On, Sequence[str]] = {
    On.RUNS: ["mm2-offset-runs.B.internal"],
    On.READINESS: ["mm2-group-readiness.B.internal"],
    On.OPPOSITE: ["A.checkpoints.internal", "mm2-group-readiness.A.internal"],
}
"""Of the flow back."""
_SOON = {
    f"{what}.interval.seconds": "1"
    for what in (
        *("refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls"),
        *("sync.group.offsets", "emit.checkpoints", "emit.heartbeats"),
    )
}
_TYPES = {"cluster": "BROKER", "topic": "TOPIC", "group": "GROUP", "transactional id": "TRANSACTIONAL_ID"}


class Case(NamedTuple):
    """One right of one connector, or of another user, on one name. `label` is for whoever reads a failure."""

    role: str
    right: Right
    name: str

    @property
    def side(self) -> Side:
        return self.right.side or A

    @property
    def cluster(self) -> Side:
        """A is the source of the flow, whichever way this connector goes."""
        home = self.role in ROLES and ROLES[self.role].home
        return self.side if not home else B if self.side is A else A

    @property
    def label(self) -> str:
        on = "the cluster" if self.right.on is On.CLUSTER else self.name
        return f"{self.right.operation} on {on} of the {self.side.value}, for {self.role}"

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
    _stack: LocalStack
    _workers: set[ConnectWorker] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _granted: set[Case] = field(default_factory=set)

    @staticmethod
    def of(stack: LocalStack, directory: Path, others: Sequence[str]) -> RightsScenario:
        """`others`: more users."""
        tls = make_tls(directory, clients=[*ROLES, CONNECTS, CONNECTS_ADMIN, *others])
        source = stack.broker("rights-a", security=Security(tls=tls, authorizer=True))
        users = dict.fromkeys([*ROLES, CONNECTS, *others], PASSWORD)
        target = stack.broker("rights-b", security=Security(users=users, tls=tls, authorizer=True))
        worker, service = stack.worker("rights", on="rights-b"), stack.service("rights-service")
        return RightsScenario(source, target, worker, service, tls, stack)

    @property
    def sinks_worker(self) -> ConnectWorker:
        """At the source. It is started when it is first asked for."""
        worker = self._stack.worker("rights-sinks", on="rights-a")
        self._workers.add(worker)
        return worker

    def end(self) -> None:
        workers = [self.worker, *self._workers]
        for worker in workers:
            for name in worker.rest.connectors():
                worker.rest.delete(name)
        for ended in (*workers, self.service, self.source, self.target):
            ended.close()

    @property
    def client(self) -> ServiceClient:
        return ServiceClient(self.service.url)

    @property
    def watched(self) -> tuple[object, ...]:
        return (*self.source.watched, *self.target.watched, self.worker.process, self.service.process)

    def until(self, attempt: Callable[[], object], what: str) -> None:
        eventually(attempt, WAIT, what=what, watched=self.watched)  # type: ignore[arg-type]

    # -- rights --------------------------------------------------------------------------------------------------------

    def cases(self, role: str, topics: Sequence[str] = TOPICS) -> list[Case]:
        """What the connector needs as it is configured here."""
        kind = ROLES[role].kind
        settings, definition = self.config(role), KINDS[kind].definition.keys

        def setting(key: str) -> str | None:
            return settings.get(key, definition[key].default_text) if key in definition else None

        return [
            Case(role, right, name)
            for right in RIGHTS
            if kind in right.kinds and right.needed(setting)
            for name in self.names(role, right.on, topics)
        ]

    def names(self, role: str, on: On, topics: Sequence[str]) -> Sequence[str]:
        home = ROLES[role].home
        if on is On.TOPICS:
            return [self.topic(role, topic) for topic in topics]
        if on is On.COPIES:
            return topics if home else [f"A.{topic}" for topic in topics]
        if on is On.GROUPS:
            return (*GROUPS[role], *(GROUPS["back"] if role == "group_offset" else ()))
        if on is On.IDS:
            return [f"mirror-bridge-A-{NAME[role]}-"]
        if on is On.OTHERS_IDS and "bridge.take.over.from" not in ROLES[role].settings:
            return []
        return NAMES_HOME.get(on, NAMES[on]) if home else NAMES[on]

    def topic(self, role: str, topic: str) -> str:
        """As the connector's source has it."""
        return f"A.{topic}" if ROLES[role].home else topic

    def grant(self, cases: Iterable[Case]) -> None:
        fresh = [case for case in cases if case not in self._granted]
        for side in Side:
            rules = [self._rule(case) for case in fresh if case.cluster is side]
            if rules:
                client = admin(self.broker(side).bootstrap)
                for done in client.create_acls(rules).values():
                    done.result(WAIT)
                self.until(partial(has_rule, client, rules[-1]), "ACLs")
        self._granted.update(fresh)

    def take(self, case: Case) -> None:
        rule, client = self._rule(case), admin(self.broker(case.cluster).bootstrap)
        assert case in self._granted
        drop_rule(client, rule)
        self._granted.discard(case)

    def _rule(self, case: Case) -> AclBinding:
        user = CONNECTS_ADMIN if case.right.by is By.ADMIN else CONNECTS
        if not case.right.by_connect:
            user = case.role
        prefixed = case.right.on.resource == "transactional id"
        return AclBinding(
            ResourceType[_TYPES[case.right.on.resource]],
            case.name,
            ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
            f"User:CN={user}" if case.cluster is A else f"User:{user}",
            "*",
            AclOperation[case.right.operation],
            AclPermissionType.ALLOW,
        )

    def broker(self, side: Side) -> Broker:
        return self.source if side is A else self.target

    # -- connectors ----------------------------------------------------------------------------------------------------

    def config(self, role: str) -> dict[str, str]:
        kind, name, settings, home = ROLES[role]
        definition = KINDS[kind].definition.keys
        source, target = (B, A) if home else (A, B)
        groups = self.names(role, On.GROUPS, ()) if role in GROUPS else ()
        given = {
            **{key: "1" for key in definition if key.endswith("replication.factor")},
            **_SOON,
            "source.cluster.alias": "B" if home else "A",
            "target.cluster.alias": "A" if home else "B",
            "topics": ",".join(self.topic(role, topic) for topic in (*TOPICS, "later.*")),
            "groups": ",".join(groups),
            "sync.group.offsets.enabled": "true",
            "heartbeats.replication.enabled": "false",
            "offset.lag.max": "0",
            "bridge.url": self.service.url,
            "bridge.task.lease.ms": str(LEASE_MS),
            **settings,
        }
        result = {key: value for key, value in given.items() if key in definition}
        if kind in ("source", "sink"):
            result["spark.master"] = "local[2]"
        if kind != "heartbeat":
            result |= self.login("source.cluster", source, role)
        result |= self.login("target.cluster", target, role)
        if kind in ("checkpoint", "heartbeat"):
            result |= self.login("producer.override", B, CONNECTS)
        if kind == "sink":
            result |= self.login("consumer.override", A, CONNECTS)
            result |= self.login("admin.override", A, CONNECTS_ADMIN)
            result["consumer.override.metadata.max.age.ms"] = "2000"
        return {"connector.class": CLASSES[kind], "tasks.max": "1", "name": name, **result}

    def login(self, prefix: str, cluster: Side, user: str) -> dict[str, str]:
        result = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.tls.authority)}
        if cluster is A:
            result |= {
                "bootstrap.servers": self.source.address("SSL"),
                "security.protocol": "SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.tls.client_file(user)),
            }
        else:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            result |= {
                "bootstrap.servers": self.target.address("SASL_SSL"),
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{module} required username="{user}" password="{PASSWORD}";',
            }
        return {f"{prefix}.{key}": value for key, value in result.items()}

    def rest(self, role: str) -> ConnectClient:
        """Of the worker that the connector runs on."""
        return (self.sinks_worker if ROLES[role].kind == "sink" else self.worker).rest

    def start(self, role: str) -> None:
        self.rest(role).put(NAME[role], self.config(role))
        self.rest(role).resume(NAME[role])

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

    def refresh(self, role: str) -> None:
        """A round now: after several that failed the next one may be half a minute away."""
        httpx.post(
            f"{self.service.url}/v1/connectors/{NAME[role]}/refresh", timeout=60.0, verify=NO_AUTHORITIES
        )

    # -- what goes on --------------------------------------------------------------------------------------------------

    def copied(self, topic: str) -> None:
        """A record that is produced now is copied."""
        value = b"%d" % next(self._numbers)
        produce(self.source.bootstrap, topic, [Record(value, key=value)])

        def there() -> bool:
            _, end = bounds(self.target.bootstrap, f"A.{topic}")[0]
            result = last(self.target.bootstrap, f"A.{topic}", 0, end)
            return result is not None and result.value == value

        self.until(there, f"a record of {topic} is copied")

    def commit(self, role: str, group: str, topic: str) -> int:
        """Further than it was."""
        home = ROLES[role].home
        at = next(self._numbers) + (MOVED if home else 0)
        commit(self.broker(B if home else A).bootstrap, group, {(self.topic(role, topic), 0): at})
        return at

    def synced(self, role: str, group: str, topic: str) -> None:
        """Where the group is committed now it is translated to, and stands, unless nothing is written."""
        at = self.commit(role, group, topic)
        written = "dry.run" not in ROLES[role].settings

        def there() -> None:
            report = self.client.report(group, NAME[role])
            rows = {row["topic"]: row for row in report["partitions"]}
            row = rows[self.topic(role, topic)]
            assert (report["ready"], report["reason"]) == ((True, None) if written else (False, "dry_run")), (
                report
            )
            assert row["committed"] == at, report
            assert row["target_offset"] is not None, report

        self.until(there, f"{group} is synced at {at}")

    def translated(self, role: str, group: str, topic: str) -> None:
        """The end of what is copied now is translated for the group, whether anything is committed or not."""
        self.copied(topic)
        _, at = bounds(self.source.bootstrap, topic)[0]
        commit(self.source.bootstrap, group, {(topic, 0): at})

        def there() -> None:
            report = self.client.report(group, NAME[role])
            (row,) = (each for each in report["partitions"] if each["topic"] == topic)
            assert row["committed"] == at, report
            assert row["target_offset"] is not None, report

        self.until(there, f"{group} is translated at {at}")

    def ready(self) -> bool:
        """Whether the service says yes, for everything."""
        report = self.client.readiness()
        assert report["readiness"] == "ready", report
        return True

    def ready_group(self, role: str, group: str) -> bool:
        return bool(self.client.report(group, NAME[role])["ready"])

    def well(self, role: str) -> bool:
        """Nothing is wrong now but what is told of gaps for a day."""
        errors = self.client.status(NAME[role])["errors"]
        assert all("truncated" in error for error in errors), errors
        return True

    def named(self, case: Case, _begun: int = 0) -> bool:
        """In the connector's status, and in health as well, or in the report of a group; no task has failed."""
        name = NAME[case.role]
        errors = self.client.status(name)["errors"]
        (health,) = (each for each in self.client.health()["connectors"] if each["name"] == name)
        reports = [self.client.report(group, name) for group in GROUPS.get(case.role, ())]
        texts = [str(row["detail"].get("said")) for report in reports for row in report["partitions"]]
        assert case.in_line([*texts, *(error for error in errors if error in health["errors"])]), (
            errors,
            texts,
        )
        assert [task["state"] for task in self.rest(case.role).status(name)["tasks"]] == ["RUNNING"]
        return True

    def logged(self, case: Case, begun: int) -> bool:
        """By the service, since its log was so long."""
        return case.in_line(self.service.process.log.read_bytes()[begun:].decode().splitlines())

    def failed(self, case: Case) -> None:
        """By Connect."""
        (task,) = self.rest(case.role).status(NAME[case.role])["tasks"]
        assert task["state"] == "FAILED", task
        assert case.name in task["trace"], task["trace"]

    def doctor(self, role: str) -> list[str]:
        """What the doctor finds of rights."""
        kind, props = KINDS[ROLES[role].kind], self.config(role)
        facts = asyncio.run(collect(kind, NAME[role], props, StaticClientCheck()))
        findings = [each for each in examine(facts) if each.check == "rights" and each.severity.value != "ok"]
        return [f"{each.found} ({each.severity.value})" for each in findings]


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
