"""Configurations of the wild (tests/golden/configs), and what this project says of them.

Host names, topics, users and passwords are made up; the keys, the values that matter and the form of the files are as
people have published them. `connect` has the JSON of connectors, `dedicated` files of connect-mirror-maker.sh, and
`legacy` a command line of kafka-mirror-maker.sh with the two files behind it. `answers.json` of each folder has for
every configuration what stock says of it (tests/integration/WildConfigs.java), what we say, and why where one takes
what the other refuses.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from bridge.dedicated.config.meaning import KINDS
from bridge.dedicated.config.reading import plan_of_properties
from bridge.errors import ConfigRejected
from bridge.java_properties import parse_properties
from bridge.kafka.config.files import Files
from bridge.kafka.config.settings import StaticClientCheck
from connectors.base import ConnectorKind
from tests import ROOT

FOLDER = ROOT / "tests" / "golden" / "configs"
PASSWORD = "changeit"
ENVIRONMENT = {
    "SOURCE_SERVERS": "kafka-a-1:9092",
    "SOURCE_USER": "mirror",
    "SOURCE_PASSWORD": "secret-of-a",
    "TARGET_PASSWORD": "secret-of-b",
}
"""Variables that the files refer to."""
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
_REFERENCE = re.compile(r"\$\{[a-zA-Z]+:[^}]*?\.?(?P<end>crt|key)?\}")

Answer = Mapping[str, Any]
Texts = Mapping[str, str]


class SameFile(Files):
    """Every file that a configuration names is there, and is a key store."""

    def read(self, location: str) -> bytes:
        return stores()["p12"]


CLIENTS = StaticClientCheck(SameFile())


@cache
def stores() -> Mapping[str, bytes]:
    """A key with its certificate: in a key store, and as texts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mirror")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    certificate = made.sign(key, hashes.SHA256())
    store = serialization.BestAvailableEncryption(PASSWORD.encode())
    pem = serialization.Encoding.PEM
    return {
        "p12": pkcs12.serialize_key_and_certificates(b"own", key, certificate, [certificate], store),
        "crt": certificate.public_bytes(pem),
        "key": key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    }


def names(kind: str) -> list[str]:
    return sorted(each.stem for each in (FOLDER / kind).iterdir() if each.stem != "answers")


def answers(kind: str) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = json.loads((FOLDER / kind / "answers.json").read_text("utf-8"))
    return made


def connector(name: str) -> dict[str, str]:
    """A connector's configuration as a plugin gets it: the worker has replaced references to config providers."""
    config: dict[str, str] = json.loads((FOLDER / "connect" / f"{name}.json").read_text("utf-8"))
    return {key: _REFERENCE.sub(_resolved, value) for key, value in config.items()}


def _resolved(reference: re.Match[str]) -> str:
    return stores()[reference["end"]].decode() if reference["end"] else PASSWORD


def dedicated(name: str) -> str:
    return (FOLDER / "dedicated" / f"{name}.properties").read_bytes().decode("latin-1")


@dataclass(frozen=True, slots=True)
class Legacy:
    words: Sequence[str]
    """Of the command line."""
    consumer: str
    producer: str


def legacy(name: str) -> Legacy:
    text = (FOLDER / "legacy" / f"{name}.txt").read_text("latin-1")
    line, consumer, producer = re.split(r"\n?--- (?:consumer|producer)\.properties\n", text)
    return Legacy(shlex.split(line), consumer, producer)


def kind_of(config: Texts) -> ConnectorKind:
    """Returns our kind of connector for stock's class."""
    return KINDS[config["connector.class"].rpartition(".")[2]]


def of_connector(config: Texts) -> Answer:
    kind = kind_of(config)
    result = kind.validate({**config, "connector.class": kind.connector_class}, CLIENTS)
    return _answer(
        ((each.key, each.message) for each in result.errors), [each.key for each in result.ignored]
    )


def of_file(file: Texts) -> Answer:
    try:
        plan = plan_of_properties(file, CLIENTS, ENVIRONMENT)
    except ConfigRejected as rejected:
        return _answer((each.key, each.message) for each in rejected.errors)
    return {
        "flows": {each.name: [one.name for one in each.connectors] for each in plan.flows},
        **_answer((), [key for unused in plan.unused for key in unused.keys]),
        "warnings": {each.key: each.message for each in plan.warnings},
    }


def of_command(given: Legacy) -> Answer:
    """What `mirror-bridge legacy` says before it reaches a cluster, and of the connector that it would run."""
    from bridge.cli import app
    from bridge.commands import legacy_config
    from bridge.commands.legacy_config import Clients, LegacyOptions, in_own_words
    from connectors.source.connector import KIND

    command = typer.main.get_command(app).commands["legacy"]  # type: ignore[attr-defined]
    try:
        chosen = command.make_context("legacy", list(given.words)).params
    except USAGE_ERROR as wrong:
        return {"errors": [str(wrong)]}
    fields = LegacyOptions.__dataclass_fields__
    options = LegacyOptions(
        **{field: chosen[field] for field in fields if chosen[field] is not None or field != "more"}
    )
    clients = Clients.from_properties(
        parse_properties(given.consumer, "consumer.properties"),
        parse_properties(given.producer, "producer.properties"),
    )
    if problems := legacy_config.problems(options, clients):
        return {"errors": problems}
    result = KIND.validate(legacy_config.connector_config(options, clients, "idOfA", "idOfB"), CLIENTS)
    return {
        "errors": [in_own_words(each.message) for each in result.errors],
        "remarks": [
            *legacy_config.remarks(options, clients),
            *(in_own_words(f"{each.key} does nothing: {each.reason}") for each in result.ignored),
        ],
    }


def _answer(
    errors: Iterator[tuple[str, str]] | Sequence[tuple[str, str]], ignored: Sequence[str] = ()
) -> dict[str, Any]:
    by_key: dict[str, list[str]] = {}
    for key, message in errors:
        by_key.setdefault(key, []).append(message)
    return {"errors": by_key, **({"ignored": sorted(ignored)} if ignored else {})}


OURS: Mapping[str, Callable[[str], Answer]] = {
    "connect": lambda name: of_connector(connector(name)),
    "dedicated": lambda name: of_file(parse_properties(dedicated(name), f"{name}.properties")),
    "legacy": lambda name: of_command(legacy(name)),
}


def record(kind: str, whose: str, said: Mapping[str, Answer]) -> None:
    """Writes what one side says into the table of a folder."""
    path: Path = FOLDER / kind / "answers.json"
    known = answers(kind) if path.exists() else {}
    table = {name: {**known.get(name, {}), whose: said[name]} for name in names(kind)}
    path.write_text(json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
