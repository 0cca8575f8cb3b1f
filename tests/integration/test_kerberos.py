"""Logins by Kerberos against a real KDC and a real broker, where this machine has what they need (docs/logins.md)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.sasl import kerberos_lacking
from bridge.kafka.network.client import NetworkClient
from tests.integration.client_logins import brokers_seen, settings
from tests.integration.kerberos import KRB5, KerberosBroker, Realm, programs_lacking, realm
from tests.support import Record, create_topic, produce, read, unique
from tests.support.waits import WAIT

LACKING = "; ".join(filter(None, (kerberos_lacking(), programs_lacking())))
pytestmark = [
    pytest.mark.skipif(bool(LACKING), reason=f"Kerberos can't be used here: {LACKING}"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    folder = tmp_path_factory.mktemp("realm")
    with realm(folder, os.environ) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", running.environment["KRB5_CONFIG"])
        patch.setenv("KRB5CCNAME", f"FILE:{folder}/ccache")
        yield running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, kerberos: Realm) -> Iterator[KerberosBroker]:
    running = KerberosBroker(tmp_path_factory.mktemp("broker"), kerberos)
    running.start()
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def jaas(kerberos: Realm) -> str:
    return kerberos.jaas("mirror", kerberos.keytab("mirror"))


def login(jaas: str) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": jaas}


def test_both_clients_log_in_by_a_keytab(broker: KerberosBroker, jaas: str) -> None:
    given = {key.replace(".", "__"): value for key, value in login(jaas).items()}
    assert brokers_seen(settings(broker.address("SASL_PLAINTEXT"), **given)) == (1, 1)


def why_refused(broker: KerberosBroker, jaas: str) -> KafkaFailure:
    given = {key.replace(".", "__"): value for key, value in login(jaas).items()}
    parsed = settings(broker.address("SASL_PLAINTEXT"), **given)

    async def metadata() -> None:
        client = NetworkClient(parsed.raw)
        try:
            await client.metadata(["orders"])
        finally:
            await client.close()

    with pytest.raises(KafkaFailure) as caught:
        asyncio.run(metadata())
    return caught.value


def test_a_keytab_that_is_no_longer_valid(broker: KerberosBroker, kerberos: Realm) -> None:
    old = kerberos.keytab("rotated")
    kerberos.kadmin("cpw -randkey rotated")
    refused = why_refused(broker, kerberos.jaas("rotated", old))
    assert refused.fault is KafkaFault.CREDENTIALS
    assert "Kerberos" in str(refused)


def test_a_keytab_of_somebody_else(broker: KerberosBroker, kerberos: Realm) -> None:
    refused = why_refused(broker, kerberos.jaas("nobody", kerberos.keytab("somebody")))
    assert refused.fault is KafkaFault.CREDENTIALS
    assert "the keytab has no key of nobody@" in str(refused)


def test_a_kdc_that_is_away(broker: KerberosBroker, kerberos: Realm) -> None:
    late = kerberos.jaas("late", kerberos.keytab("late"))
    kerberos.kdc.kill()
    assert why_refused(broker, late).fault is KafkaFault.UNREACHABLE
    kerberos.start()
    given = {key.replace(".", "__"): value for key, value in login(late).items()}
    assert brokers_seen(settings(broker.address("SASL_PLAINTEXT"), **given)) == (1, 1)


def test_the_ticket_of_the_users_cache(broker: KerberosBroker, kerberos: Realm) -> None:
    cached = f"{KRB5} useTicketCache=true;"
    subprocess.run(["kdestroy"], check=False, capture_output=True)
    assert why_refused(broker, cached).fault is KafkaFault.UNREACHABLE
    keytab = kerberos.keytab("cached")
    subprocess.run(["kinit", "-t", str(keytab), "-k", "cached"], check=True)
    given = {key.replace(".", "__"): value for key, value in login(cached).items()}
    assert brokers_seen(settings(broker.address("SASL_PLAINTEXT"), **given)) == (1, 1)
    subprocess.run(["kdestroy"], check=True)


def test_a_copy_and_what_doctor_says_of_it(broker: KerberosBroker, jaas: str, tmp_path: Path) -> None:
    topic = create_topic(broker.bootstrap, unique("orders"), 2)
    produce(broker.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(20)])
    config = {
        "connector.class": "BridgeMirrorSourceConnector",
        "source.cluster.alias": (alias := unique("a")),
        "target.cluster.alias": "target",
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "spark.master": "local[2]",
    }
    for side in ("source", "target"):
        config[f"{side}.cluster.bootstrap.servers"] = broker.address("SASL_PLAINTEXT")
        config |= {f"{side}.cluster.{key}": value for key, value in login(jaas).items()}
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": topic, "config": config}))

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bridge", *arguments, "--config", str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)

    copied = ran("replicate", "--until-caught-up")
    assert copied.returncode == 0, copied.stdout + copied.stderr
    found = [record for each in (0, 1) for record in read(broker.bootstrap, f"{alias}.{topic}", each)]
    assert sorted(int(record.value or b"") for record in found) == list(range(20))
    examined = ran("doctor", "--output", "json")
    assert [each for each in json.loads(examined.stdout)["findings"] if each["severity"] == "error"] == []
