"""Dedicated mode with tokens that live for some seconds: each login ends again and again, and nobody notices."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.local import Broker, MirrorNode, Security
from tests.e2e.dedicated import dedicated_stack, mm2, some, wait_values
from tests.e2e.flow import committed_offsets
from tests.support import commit, create_topic, eventually, produce, unique
from tests.support.jwts import Signer
from tests.support.waits import WAIT

LIFE = 15.0
ENDS = int(os.environ.get("MIRROR_BRIDGE_LOGIN_ENDS", "2"))
COUNT = 50
FUNCTION = """
from pathlib import Path

def token(properties, options):
    return Path(options["from"]).read_text(), None
"""
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@contextmanager
def tokens(signer: Signer, file: Path) -> Iterator[None]:
    """The file has a new one every second, of LIFE seconds."""
    ended = threading.Event()

    def replace() -> None:
        new = file.with_suffix(".new")
        new.write_text(signer.token("mirror", LIFE))
        new.rename(file)

    def run() -> None:
        while not ended.wait(1.0):
            replace()

    replace()
    thread = threading.Thread(target=run, name="tokens")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_groups_are_translated_while_logins_end(tmp_path: Path) -> None:
    signer, file = Signer(tmp_path), tmp_path / "token"
    module = unique("dedicated_tokens").replace("-", "_")
    (tmp_path / f"{module}.py").write_text(FUNCTION)
    with dedicated_stack(tmp_path) as stack, tokens(signer, file):
        clusters = {name: stack.broker(name, security=Security(jwks=signer.jwks)) for name in ("A", "B")}
        topic, group = create_topic(clusters["A"].bootstrap, unique("orders")), unique("group")
        produce(clusters["A"].bootstrap, topic, some(COUNT))
        properties = {"A->B.topics": topic, "A->B.groups": group, "emit.heartbeats.enabled": "false"}
        for name, cluster in clusters.items():
            properties |= logging_in(name, cluster, module, file)
        node = MirrorNode(
            tmp_path,
            mm2(tmp_path / "mm2.properties", clusters, ["A->B"], properties),
            environment={"PYTHONPATH": str(tmp_path), "MIRROR_BRIDGE_ALLOWED_PYTHON_MODULES": module},
        )
        try:
            node.launch()
            node.wait_ready()
            wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(COUNT)], node)
            log = tmp_path / f"{node.name}.log"
            started = len(log.read_text())
            slowest, until, offset = 0.0, time.monotonic() + ENDS * LIFE, 0
            while (began := time.monotonic()) < until:
                offset += 1
                commit(clusters["A"].bootstrap, group, {(topic, 0): offset})
                wait_group(clusters["B"], group, {(f"A.{topic}", 0): offset}, node)
                slowest = max(slowest, time.monotonic() - began)
            more = some(COUNT, start=COUNT)
            produce(clusters["A"].bootstrap, topic, more)
            wait_values(clusters["B"], f"A.{topic}", [each.value for each in some(2 * COUNT)], node)
            said = log.read_text()[started:]
        finally:
            node.close()
    print(f"the slowest of {offset} commits was followed after {slowest:.1f} s")
    warned = [line for line in said.splitlines() if re.search(r"\b(WARNING|ERROR)\b", line)]
    assert not warned, "\n".join(warned)


def logging_in(name: str, cluster: Broker, module: str, file: Path) -> dict[str, str]:
    given = {
        "bootstrap.servers": cluster.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"python:{module}.token",
        "sasl.jaas.config": f'{MODULE} from="{file}";',
    }
    return {f"{name}.{key}": value for key, value in given.items()}


def wait_group(cluster: Broker, group: str, expected: dict[tuple[str, int], int], node: MirrorNode) -> None:
    def stands() -> None:
        current = committed_offsets(cluster.bootstrap, group)
        assert current == expected, f"{group} stands at {current}"

    eventually(stands, WAIT, what=f"{group} at {expected}", watched=[node.process])
