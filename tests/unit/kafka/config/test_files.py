"""Files and commands that a configuration names: what is read of them, and what is refused before anything is."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from bridge.environment import keep_folders
from bridge.errors import ConfigRejected
from bridge.kafka.config.files import Files, UnreadableFile
from bridge.kafka.config.settings import StaticClientCheck, client_settings
from bridge.kafka.config.tokens import NoToken, TokenFile
from bridge.model.values import Side
from bridge.policies import TopicMap
from tests.support.messages import message, message_pattern
from tests.unit.special_files import SPECIAL_FILES, special_file

KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
SERVERS = {"source.cluster.bootstrap.servers": "a:1", "target.cluster.bootstrap.servers": "b:2"}
KERBEROS = {
    **SERVERS,
    "source.cluster.security.protocol": "SASL_PLAINTEXT",
    "source.cluster.sasl.mechanism": "GSSAPI",
}
JAAS = "source.cluster.sasl.jaas.config"
TRUSTSTORE = "source.cluster.ssl.truststore.location"


def errors(props: dict[str, str], files: Files | None = None) -> dict[str, str]:
    check = StaticClientCheck() if files is None else StaticClientCheck(files)
    return {error.key: error.message for error in check.check(SERVERS | props)}


def checked_in_time(props: dict[str, str]) -> dict[str, str]:
    """In a thread: a check that waits for a FIFO waits for ever."""
    collected: list[dict[str, str]] = []
    thread = threading.Thread(target=lambda: collected.append(errors(props)), daemon=True)
    thread.start()
    thread.join(60)
    assert collected, "the check hangs"
    return collected[0]


@pytest.mark.parametrize("store", ["truststore", "keystore"])
@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_what_is_no_file_is_not_read(tmp_path: Path, store: str, kind: str) -> None:
    named = tmp_path / "named"
    special_file(named, kind)
    key = f"source.cluster.ssl.{store}.location"
    result = checked_in_time({"source.cluster.security.protocol": "SSL", key: str(named)})
    assert list(result) == [key]
    assert message("kafka.unreadable_file", path=named, key=key) in result[key]


def test_a_file_has_a_size(tmp_path: Path) -> None:
    fits, large = tmp_path / "fits", tmp_path / "large"
    fits.write_bytes(b"12345678")
    large.write_bytes(b"123456789")
    files = Files(most=8)
    assert files.read(str(fits)) == b"12345678"
    with pytest.raises(UnreadableFile, match="it is larger than 8 bytes"):
        files.read(str(large))
    os.truncate(large, 64 << 30)
    with pytest.raises(UnreadableFile, match="it is larger than 10485760 bytes"):
        Files().read(str(large))


@pytest.mark.parametrize("location", ["", "no/such", "a\0b", "x" * 5000])
def test_a_name_that_is_none(location: str) -> None:
    with pytest.raises(UnreadableFile):
        Files().read(location)


def test_files_lie_below_a_folder_that_the_service_allows(tmp_path: Path) -> None:
    inside, outside = tmp_path / "stores", tmp_path / "stores-of-others"
    (inside / "deep").mkdir(parents=True)
    outside.mkdir()
    for folder in (inside, inside / "deep", outside):
        (folder / "a.pem").write_text("pem")
    (inside / "mounted.pem").symlink_to(inside / "deep" / "a.pem")
    (inside / "escape.pem").symlink_to(outside / "a.pem")
    (tmp_path / "alias").symlink_to(inside)
    files = Files((str(tmp_path / "alias"),))
    for allowed in ("stores/a.pem", "stores/deep/a.pem", "stores/mounted.pem", "alias/a.pem"):
        assert files.read(str(tmp_path / allowed)) == b"pem"
    refused = ("stores-of-others/a.pem", "stores/escape.pem", "stores/../stores-of-others/a.pem", "nowhere")
    for name in refused:
        with pytest.raises(UnreadableFile, match=message_pattern("config.other_folder")):
            files.read(str(tmp_path / name))
    key = {"source.cluster.security.protocol": "SSL", TRUSTSTORE: str(outside / "a.pem")}
    assert "MIRROR_BRIDGE_ALLOWED_FOLDERS" in errors(key, files)[TRUSTSTORE]


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Led below the one folder that the process may read from when it was checked, and leads elsewhere now."""
    monkeypatch.setenv("MIRROR_BRIDGE_PROCESS_FOLDERS", "")
    inside = tmp_path / "inside"
    inside.mkdir()
    keep_folders([str(inside)])
    for folder in (inside, tmp_path):
        (folder / "file").write_text("orders=planted")
    link = tmp_path / "link"
    link.symlink_to(inside / "file")
    assert Files().read(str(link)) == b"orders=planted"
    link.unlink()
    link.symlink_to(tmp_path / "file")
    return link


def test_a_link_that_leads_elsewhere_since_it_was_checked_is_not_followed(link: Path) -> None:
    """By none of those who read files later than validate does."""
    below = r"below no folder .* MIRROR_BRIDGE_ALLOWED_FOLDERS is .*inside"
    with pytest.raises(ConfigRejected, match=f"topic.map.file: it lies {below}"):
        TopicMap().configure({"replication.policy.topic.map.file": str(link)})
    with pytest.raises(NoToken, match=below):
        TokenFile(str(link)).obtain()
    store = {"source.cluster.security.protocol": "SSL", TRUSTSTORE: str(link)}
    with pytest.raises(ConfigRejected, match=below):
        client_settings(Side.SOURCE, SERVERS | store)


def test_without_folders_links_lead_anywhere(link: Path) -> None:
    keep_folders([])
    assert Files().read(str(link)) == b"orders=planted"


@pytest.fixture
def _kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with Kerberos."""
    monkeypatch.setattr("bridge.kafka.config.sasl.kerberos_lacking", lambda: "")


@pytest.mark.usefixtures("_kerberos")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("principal", '\\"; touch /tmp/x #'),
        ("principal", "kafka$(touch /tmp/x)@R"),
        ("principal", "`id`"),
        ("principal", "-k"),
        ("principal", "a b"),
        ("principal", "a\nb"),
        ("principal", "%{sasl.kerberos.keytab}"),
        ("keyTab", '\\"; touch /tmp/x #'),
        ("keyTab", "/etc/$HOME.keytab"),
        ("keyTab", "-x"),
        ("serviceName", '\\"; touch /tmp/x #'),
    ],
)
def test_kinit_is_given_no_text_that_a_shell_reads(tmp_path: Path, option: str, value: str) -> None:
    keytab = tmp_path / "k.keytab"
    keytab.touch()
    options = {"principal": "u@R", "keyTab": str(keytab)} | {option: value}
    text = KRB5 + " ".join(f'{name}="{each}"' for name, each in options.items()) + ";"
    rejected = errors(KERBEROS | {JAAS: text})
    assert list(rejected) == [JAAS]
    assert option in rejected[JAAS]
    assert "touch" not in rejected[JAAS]


@pytest.mark.usefixtures("_kerberos")
def test_what_kinit_is_run_with(tmp_path: Path) -> None:
    """librdkafka's own command, with each text as one word of the shell."""
    from bridge.kafka.config.properties import ADMIN, ClientProps, KeyPrefixes
    from bridge.kafka.config.sasl import read_sasl
    from bridge.model.values import Side

    keytab = tmp_path / "kafka-1.keytab"
    keytab.touch()
    given = KERBEROS | {JAAS: f'{KRB5} principal="kafka/host-1.example.org@EXAMPLE.ORG" keyTab="{keytab}";'}
    props = ClientProps(KeyPrefixes.for_side(Side.SOURCE), ADMIN, given)
    sasl = read_sasl(props)
    assert sasl is not None
    assert props.errors == []
    command = str(sasl.librdkafka()["sasl.kerberos.kinit.cmd"])
    words = subprocess.run(
        ["sh", "-c", f"kinit() {{ printf '%s\\n' \"$@\"; false; }}; {command}"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    once = ["-t", str(keytab), "-k", "kafka/host-1.example.org@EXAMPLE.ORG"]
    assert words == ["-R", *once, *once]
    assert shlex.quote(str(keytab)) in command


@pytest.mark.usefixtures("_kerberos")
def test_a_keytab_is_a_file_below_an_allowed_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    jaas = f'{KRB5} principal="u@R" keyTab="{tmp_path}/fifo";'
    assert "keyTab" in (message := checked_in_time(KERBEROS | {JAAS: jaas})[JAAS])
    assert "no regular file" in message
    (tmp_path / "k.keytab").touch()
    jaas = f'{KRB5} principal="u@R" keyTab="{tmp_path}/k.keytab";'
    assert errors(KERBEROS | {JAAS: jaas}) == {}
    elsewhere = Files((str(tmp_path / "keytabs"),))
    assert "MIRROR_BRIDGE_ALLOWED_FOLDERS" in errors(KERBEROS | {JAAS: jaas}, elsewhere)[JAAS]


def test_the_library_is_asked_without_a_keytab(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has Kerberos refuses a client without, unless it is told to run no kinit."""
    from bridge.kafka.config.sasl import kerberos_lacking

    class Consumer:
        def __init__(self, settings: Mapping[str, str]) -> None:
            if settings.get("sasl.kerberos.min.time.before.relogin") != "0":
                raise KafkaException("Invalid sasl.kerberos.kinit.cmd value")

        def close(self) -> None: ...

    monkeypatch.setattr("confluent_kafka.Consumer", Consumer)
    assert "librdkafka" not in kerberos_lacking.__wrapped__()


@pytest.mark.usefixtures("_kerberos")
@pytest.mark.parametrize("options", ["useTicketCache=true", 'principal="u@R"'])
def test_without_a_keytab_no_kinit_is_run(options: str) -> None:
    from bridge.kafka.config.properties import ADMIN, ClientProps, KeyPrefixes
    from bridge.kafka.config.sasl import read_sasl
    from bridge.model.values import Side

    sasl = read_sasl(
        ClientProps(KeyPrefixes.for_side(Side.SOURCE), ADMIN, KERBEROS | {JAAS: f"{KRB5} {options};"})
    )
    assert sasl is not None
    settings = sasl.librdkafka()
    assert "sasl.kerberos.kinit.cmd" not in settings
    assert settings["sasl.kerberos.min.time.before.relogin"] == "0"


def test_no_configuration_names_a_command() -> None:
    key = "source.cluster.sasl.kerberos.kinit.cmd"
    assert "names a command" in errors({key: "touch /tmp/x"})[key]
    assert errors({key: "/usr/bin/kinit"}) == {}
