"""Settings, the command line, and starts that can't be: one clear line each, never a traceback."""

from __future__ import annotations

import datetime
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner, Result

from bridge import VERSION
from bridge.cli import app
from bridge.logs.lines import JsonLines, TextLines
from bridge.settings import SettingsRejected, load_settings, misspelt
from tests.unit.service.service_fakes import ROOT, SECRET


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MIRROR_BRIDGE_")]:
        monkeypatch.delenv(name)


def certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_file, key_file


def command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from bridge.cli import main; main()", *arguments],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_flags_win_over_the_environment_and_that_over_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (load_settings().host, load_settings().port) == ("127.0.0.1", 8900)
    monkeypatch.setenv("MIRROR_BRIDGE_PORT", "1234")
    monkeypatch.setenv("MIRROR_BRIDGE_LOG_LEVEL", "WARNING")
    assert load_settings().port == 1234
    assert load_settings(port=99, host=None).port == 99
    assert load_settings().log_level == "warning"


def test_all_errors_in_one_line_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_BRIDGE_AUTH_TOKEN", f"{SECRET} with a space")
    monkeypatch.setenv("MIRROR_BRIDGE_OPEN_PATHS", "not json")
    with pytest.raises(SettingsRejected) as error:
        load_settings()
    monkeypatch.delenv("MIRROR_BRIDGE_OPEN_PATHS")
    with pytest.raises(SettingsRejected) as error:
        load_settings(port=70000, pool_size=0, log_format="xml")
    for word in ("port", "pool_size", "log_format", "auth_token"):
        assert word in str(error.value)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_token_comes_from_one_place(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("from-a-file\n")
    assert load_settings(auth_token_file=token).tokens().changing == ("from-a-file",)
    assert load_settings(auth_token="given").tokens().changing == ("given",)
    assert "given" not in repr(load_settings(auth_token="given"))
    for wrong in (
        {"auth_token": "given", "auth_token_file": token},
        {"auth_token_file": tmp_path / "missing"},
        {"auth_token": ""},
    ):
        with pytest.raises(SettingsRejected, match="auth_token"):
            load_settings(**wrong)


def test_tls_is_checked_before_anything_starts(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    assert (
        load_settings(tls_cert=cert, tls_key=key, tls_client_ca=cert).tls().verify_mode is ssl.CERT_REQUIRED
    )
    for wrong, words in (
        ({"tls_cert": cert}, "needed together"),
        ({"tls_client_ca": cert}, "needs tls_cert"),
        ({"tls_client_crl": cert}, "tls_client_crl needs tls_client_ca"),
        ({"tls_changing_subjects": "CN=a"}, "tls_changing_subjects needs tls_client_ca"),
        ({"tls_cert": cert, "tls_key": cert}, "can't be used"),
        ({"tls_cert": tmp_path / "missing", "tls_key": key}, "can't be used"),
    ):
        with pytest.raises(SettingsRejected, match=words):
            load_settings(**wrong)


def test_subjects_are_compared_however_they_are_written(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    tls = {"tls_cert": cert, "tls_key": key, "tls_client_ca": cert}
    assert load_settings(**tls).changing_subjects() is None
    given = load_settings(**tls, tls_changing_subjects="CN=a,O=Example;2.5.4.3=b\\, c")
    assert given.changing_subjects() == frozenset(("CN=a,O=Example", "CN=b\\, c"))
    for wrong in ("", "ops", "CN=a;", "CN=a;;CN=b"):
        with pytest.raises(SettingsRejected, match="tls_changing_subjects"):
            load_settings(**tls, tls_changing_subjects=wrong)


@pytest.mark.parametrize(
    ("host", "lacking"),
    [
        ("127.0.0.1", None),
        ("::1", None),
        ("localhost", None),
        ("0.0.0.0", "a token or client certificates (insecure_no_auth) and TLS"),
        ("a", "TLS"),
    ],
)
def test_an_open_address_without_token_and_tls_is_warned_of(host: str, lacking: str | None) -> None:
    exposed = load_settings(host=host, insecure_no_auth=True).exposed()
    assert (exposed is None) if lacking is None else (exposed is not None and lacking in exposed)


def test_an_open_address_with_both_is_not(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    assert load_settings(host="0.0.0.0", auth_token="x", tls_cert=cert, tls_key=key).exposed() is None
    assert "without TLS" in str(load_settings(host="0.0.0.0", auth_token="x").exposed())


def test_bad_settings_end_with_2_and_one_line() -> None:
    ended = command("serve", "--port", "70000", MIRROR_BRIDGE_POOL_SIZE="none")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("mirror-bridge: bad settings: ")
    assert "port" in ended.stderr
    assert "pool_size" in ended.stderr


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = command("serve", "--port", str(port))
    assert ended.returncode == 1
    assert ended.stderr == f"mirror-bridge: can't listen on 127.0.0.1:{port}: Address already in use\n"


def test_version_and_openapi() -> None:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments)

    assert run("version").stdout == f"mirror-bridge {VERSION} (protocol 1)\n"
    assert json.loads(run("openapi").stdout)["info"]["version"] == VERSION
    ended = run("openapi", "/no/such/folder/openapi.json")
    assert ended.exit_code == 1
    assert len(ended.stderr.splitlines()) == 1


def logged(message: str, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("bridge.x", logging.INFO, "f", 1, message, (), None)
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def test_a_log_line_is_one_line_whatever_the_names() -> None:
    record = logged("started\nERROR forged", connector="c\r\nINFO forged", task=3, request_id=None)
    text = TextLines("http").format(record)
    assert len(text.splitlines()) == 1
    assert "task=3" in text
    decoded = json.loads(JsonLines("http").format(record))
    assert (decoded["connector"], decoded["task"], decoded["level"]) == ("c\r\nINFO forged", 3, "INFO")
    assert "request_id" not in decoded
    assert len(JsonLines("http").format(record).splitlines()) == 1
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        record.exc_info = sys.exc_info()
    assert len(TextLines("http").format(record).splitlines()) == 1
    assert "boom" in json.loads(JsonLines("http").format(record))["traceback"]


def test_an_address_that_can_not_be_had_is_json_where_that_is_asked_for() -> None:
    ended = command("serve", "--host", "no.such.host.invalid", "--insecure-no-auth", "--log-format", "json")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert (json.loads(line)["level"], json.loads(line)["process"]) == ("CRITICAL", "http")


def test_a_variable_that_is_nearly_a_setting_is_named() -> None:
    given = ["MIRROR_BRIDGE_PROT", "MIRROR_BRIDGE_PORT", "MIRROR_BRIDGE_URL", "MIRROR_BRIDGE_OWN", "PROT"]
    (sentence,) = misspelt(given)
    assert sentence.startswith("MIRROR_BRIDGE_PROT is no setting: did")
    assert sentence.endswith("MIRROR_BRIDGE_PORT?")
    assert misspelt(["MIRROR_BRIDGE_AUTH_TOKN"])[0].endswith("MIRROR_BRIDGE_AUTH_TOKEN?")
