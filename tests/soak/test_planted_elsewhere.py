"""Secrets in configurations that do not come by Connect: dedicated mode's file with config providers, a file for
spark-submit, and a copy on a Spark Connect server. As tests/e2e/test_planted_secrets.py, which has all other places."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.local import Cluster, MirrorNode, Security, eventually
from bridge.local.processes import ManagedProcess
from tests.e2e.dedicated import dedicated_stack, mm2, some, wait_values
from tests.e2e.planted import Place, Planted, control
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import config, copied, driven, server, submitted, until
from tests.support import create_topic, produce, unique
from tests.support.records import varied
from tests.support.waits import WAIT

__all__ = ["server"]

CONTROL = "what is there to be found"
PROVIDERS = "org.apache.kafka.common.config.provider"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@contextmanager
def searched(folder: Path, *names: str, without: tuple[str, ...] = ()) -> Iterator[Planted]:
    """Secrets of these names, and a search of processes, `folder`, and what is new in folders for all, for the time of
    the block. At its end the folder is searched once more, with its logs."""
    planted = Planted({name: f"planted-{secrets.token_hex(12)}" for name in (*names, CONTROL)})
    places = (
        Place(folder, "*.log", *without),
        *(Place(Path(each), "pytest-of-*", new=True) for each in ("/tmp", "/dev/shm")),
    )
    with planted.watching(*places), control(planted.secrets[CONTROL], [folder, Path("/tmp")]) as files:
        yield planted
        eventually(
            lambda: {f"file {each}" for each in files} <= planted.places[CONTROL],
            WAIT,
            what="the controls are found",
        )
    planted.search_files(Place(folder, *without))
    assert {each.partition(" of ")[0] for each in planted.places.pop(CONTROL)} >= {"cmdline", "environ"}


def login(user: str, password: str) -> str:
    return f'{LOGIN} username="{user}" password="{password}";'


def test_a_file_of_dedicated_mode_with_config_providers(tmp_path: Path) -> None:
    users = ("file", "directory", "environment")
    own, kept = tmp_path / "node", tmp_path / "kept"
    for each in (own, kept, kept / "directory"):
        each.mkdir()
    with searched(own, *users) as planted, dedicated_stack(tmp_path / "stack") as stack:
        passwords = {user: planted.secrets[user] for user in users}
        clusters = {name: stack.broker(name, security=Security(users=passwords)) for name in ("A", "B")}
        for user in users:  # the brokers' own command lines
            planted.places.pop(user, None)
        (kept / "passwords.properties").write_text(f"password={passwords['file']}\n")
        (kept / "directory" / "password").write_text(passwords["directory"])
        topic = create_topic(clusters["A"].bootstrap, unique("orders"))
        produce(clusters["A"].bootstrap, topic, some(50))
        properties = {
            "A->B.topics": topic,
            "emit.heartbeats.enabled": "false",
            "config.providers": "file, directory, env",
            "config.providers.file.class": f"{PROVIDERS}.FileConfigProvider",
            "config.providers.directory.class": f"{PROVIDERS}.DirectoryConfigProvider",
            "config.providers.env.class": f"{PROVIDERS}.EnvVarConfigProvider",
            "A.sasl.jaas.config": login("file", f"${{file:{kept}/passwords.properties:password}}"),
            "B.sasl.jaas.config": login("directory", f"${{directory:{kept}/directory:password}}"),
            "A.consumer.sasl.jaas.config": login("environment", "${env:PLANTED_PASSWORD}"),
        }
        for name, cluster in clusters.items():
            properties |= {
                f"{name}.bootstrap.servers": cluster.address("SASL_PLAINTEXT"),
                f"{name}.security.protocol": "SASL_PLAINTEXT",
                f"{name}.sasl.mechanism": "PLAIN",
            }
        node = MirrorNode(
            own,
            mm2(own / "mm2.properties", clusters, ["A->B"], properties),
            environment={"PLANTED_PASSWORD": passwords["environment"]},
        )
        try:
            node.launch()
            node.wait_ready()
            wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(50)], node)
        finally:
            node.close()
    # Who gives a secret by the environment has it there, as the operator of a node has.
    assert all(each.startswith("environ of ") for each in planted.places.pop("environment"))
    assert dict(planted.places) == {}


def test_a_file_for_spark_submit(source: Cluster, target: Cluster, tmp_path: Path) -> None:
    file = "mirror.properties"
    with searched(tmp_path, "source", "target", without=(file,)) as planted:
        flow, mark = CopyFlow(source, target), unique("orders")
        topic = create_topic(source.bootstrap, mark)
        flow.topics.append(topic)
        props = {**config(flow, mark, name=mark), "refresh.topics.interval.seconds": "1"}
        del props["spark.master"]
        for side in ("source", "target"):
            props[f"{side}.cluster.sasl.jaas.config"] = login("somebody", planted.secrets[side])
        process = submitted(tmp_path, props)
        try:
            process.start()
            produce(source.bootstrap, topic, varied(100, 0))
            eventually(flow.assert_copied, WAIT, what="all is copied", watched=[process])
        finally:
            process.stop()
        assert planted.secrets["source"] in (tmp_path / file).read_text()
    assert dict(planted.places) == {}


def test_a_copy_on_a_spark_connect_server(
    source: Cluster, target: Cluster, server: tuple[ManagedProcess, str], tmp_path: Path
) -> None:
    process, address = server
    with searched(tmp_path, "source", "target", "token") as planted:
        logins = {
            f"{side}.cluster.sasl.jaas.config": login("somebody", planted.secrets[side])
            for side in ("source", "target")
        }
        token = {"spark.remote": address, "spark.connect.authenticate.token": planted.secrets["token"]}
        flow = CopyFlow(source, target, props=logins | token)
        topic = flow.topic(2)
        partitions = flow.partitions()

        async def copy() -> None:
            async with driven(flow.spec, partitions) as pipeline:
                await asyncio.to_thread(produce, source.bootstrap, topic, varied(200, 0))
                await until(lambda: copied(pipeline) == 200, pipeline)

        asyncio.run(copy())
        flow.assert_copied()
        assert os.path.getsize(process.log) > 0
    assert dict(planted.places) == {}
