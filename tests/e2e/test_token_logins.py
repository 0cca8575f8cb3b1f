"""A flow whose clusters are logged in to with tokens of a file and of a function, each valid for seconds only: every
client of dedicated mode, of the rounds, and of Spark's slices gets the next one in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.local import Security
from tests.e2e.dedicated import WAIT, dedicated_stack, mm2, running, runs, some, wait_values
from tests.support import commit, committed, create_topic, eventually, produce, unique
from tests.support.jwts import Signer

LIFE = 20.0
"""Seconds for which a token is valid; the next one comes after a quarter of that."""
FUNCTION = """
import time

def token(properties, options):
    value = open(options["from"]).read()
    with open(options["calls"], "a") as calls:
        calls.write(f"{time.time()}\\n")
    return value, None, "mirror"
"""
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@contextmanager
def renewing(signer: Signer, file: Path) -> Iterator[None]:
    """Replaces the token in the file again and again, for the time of the block."""
    ended = threading.Event()

    def renew() -> None:
        while True:
            (new := file.with_suffix(".new")).write_text(signer.token("mirror", LIFE))
            new.rename(file)
            if ended.wait(LIFE / 4):
                return

    thread = threading.Thread(target=renew, name="renewing")
    thread.start()
    try:
        eventually(file.exists, what="the first token", timeout=30.0)
        yield
    finally:
        ended.set()
        thread.join()


def test_copies_go_on_while_tokens_replace_each_other(tmp_path: Path) -> None:
    signer = Signer(tmp_path)
    name, file, calls = "own_tokens_of_a_flow", tmp_path / "token", tmp_path / "calls"
    (tmp_path / f"{name}.py").write_text(FUNCTION)
    with dedicated_stack(tmp_path / "stack") as stack, renewing(signer, file):
        # A connection that has not logged in again ends, so that each token is asked for in time, or copying stops.
        session = {"connections.max.reauth.ms": "8000"}
        broker = stack.broker(unique("tokens"), security=Security(jwks=signer.jwks), properties=session)
        topic, group = create_topic(broker.bootstrap, unique("tokens")), unique("group")
        address = broker.address("SASL_PLAINTEXT")
        both = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "bootstrap.servers": address,
        }
        retriever = "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever"
        of_file = {
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
            "sasl.oauthbearer.jwt.retriever.class": retriever,
        }
        of_function = {
            "sasl.login.callback.handler.class": f"python:{name}.token",
            "sasl.jaas.config": f'{MODULE} from="{file}" calls="{calls}";',
        }
        plan = mm2(
            tmp_path / "mm2.properties",
            {"A": broker, "B": broker},
            ["A->B"],
            {
                **{f"A.{key}": value for key, value in (both | of_file).items()},
                **{f"B.{key}": value for key, value in (both | of_function).items()},
                "topics": topic,
                "groups": group,
                "B->A.emit.heartbeats.enabled": "false",
            },
        )
        environment = {
            "PYTHONPATH": str(tmp_path),
            "MIRROR_BRIDGE_ALLOWED_PYTHON_MODULES": name,
            "MIRROR_BRIDGE_ALLOWED_FOLDERS": str(tmp_path),
        }
        began = time.time()
        produce(broker.bootstrap, topic, some(100))
        commit(broker.bootstrap, group, {(topic, 0): 50})
        with running(tmp_path, plan, environment=environment) as node:
            copied = 100
            wait_values(broker, f"A.{topic}", [each.value for each in some(copied)], node)
            while time.time() < began + 2.5 * LIFE:
                produce(broker.bootstrap, topic, some(10, start=copied))
                copied += 10
                wait_values(broker, f"A.{topic}", [each.value for each in some(copied)], node)
            commit(broker.bootstrap, group, {(topic, 0): copied})
            eventually(
                lambda: committed(broker.bootstrap, group).get((f"A.{topic}", 0)) == copied,
                WAIT,
                what="the group's offset is on the target",
                watched=[node.process],
            )
            assert runs(node) == {"A->B"}
        asked = [float(line) for line in calls.read_text().splitlines()]
        # Each process asks at 80 % of a token's life: the node, the rounds, the driver, the slices.
        assert max(asked) - min(asked) > LIFE
        assert len(asked) < 60, "the function is called for tokens, not for connections"
        log = node.process.log.read_text()
        assert file.read_text()[-40:] not in log
        assert "Traceback" not in log
