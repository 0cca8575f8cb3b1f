"""What has a password is opened in a process of its own, which is killed when it takes too much."""

from __future__ import annotations

import base64
import sys
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from bridge.errors import Overloaded
from bridge.kafka.config import tls
from bridge.kafka.config.files import Files
from bridge.kafka.config.keystore_process import StoreProblem
from bridge.kafka.config.tls import (
    key_pair_from_file,
    key_pair_from_text,
    trusted_from_file,
    trusted_from_text,
)
from bridge.local.security import make_tls

PBES2, PBKDF2, SCRYPT = "2a864886f70d01050d", "2a864886f70d01050c", "2b06010401da47040b"
AES, SALT = "60864801650304012a", b"\x04\x08saltsalt"


def der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    length = len(content)
    size = bytes([length]) if length < 128 else bytes([0x82]) + length.to_bytes(2, "big")
    return bytes([tag]) + size + content


def number(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def name(text: str) -> bytes:
    return der(6, bytes.fromhex(text))


def encrypted(derivation: bytes) -> str:
    """A key of a thousand bytes under PBES2, as PEM."""
    scheme = der(0x30, name(AES), der(4, bytes(16)))
    algorithm = der(0x30, name(PBES2), der(0x30, derivation, scheme))
    text = base64.encodebytes(der(0x30, algorithm, der(4, bytes(1008)))).decode()
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{text}-----END ENCRYPTED PRIVATE KEY-----\n"


def by_rounds(rounds: int) -> str:
    return encrypted(der(0x30, name(PBKDF2), der(0x30, SALT, number(rounds))))


def by_memory(n: int, r: int = 8, p: int = 1) -> str:
    return encrypted(der(0x30, name(SCRYPT), der(0x30, SALT, number(n), number(r), number(p))))


def store() -> bytes:
    secret = serialization.PrivateFormat.PKCS12.encryption_builder().hmac_hash(hashes.SHA256())
    key = ec.generate_private_key(ec.SECP256R1())
    return pkcs12.serialize_key_and_certificates(b"n", key, None, None, secret.build(b"password"))


def store_by_rounds(rounds: int) -> bytes:
    """A PKCS12 file whose MacData, the last 67 bytes, says that it was made with so many."""
    made = store()
    assert made[:2] + made[-67:-65] + made[-4:-2] == b"\x30\x82\x30\x41\x02\x02"
    return der(0x30, made[4:-67], der(0x30, made[-65:-4], number(rounds)))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "CPU_SECONDS", 1)


@pytest.mark.usefixtures("short")
def test_a_key_of_many_rounds_is_an_error_of_that_key() -> None:
    with pytest.raises(StoreProblem, match="more than 1 s of processor time") as refused:
        key_pair_from_text(by_rounds(1_000_000_000), "", "password")
    assert refused.value.part == "key"


@pytest.mark.usefixtures("short")
def test_a_store_of_many_rounds_is_an_error_of_its_location(tmp_path: Path) -> None:
    location = tmp_path / "store.p12"
    location.write_bytes(store_by_rounds(1_000_000_000))
    with pytest.raises(StoreProblem, match="rounds") as refused:
        trusted_from_file(str(location), "password", "PKCS12", Files())
    assert refused.value.part == "location"


@pytest.mark.parametrize("key", [by_memory(1 << 19), by_memory(1024, 8, 1_000_000)])
def test_a_key_of_much_memory_is_an_error_of_that_key(key: str) -> None:
    with pytest.raises(StoreProblem, match="too much memory") as refused:
        key_pair_from_text(key, "", "password")
    assert refused.value.part == "key"


@pytest.mark.parametrize("password", [None, "password"])
def test_a_key_that_would_sign_for_minutes_is_an_error_of_that_key(password: str | None) -> None:
    """What it holds need not be primes: nobody looks."""
    p, q = (1 << 5000) + 1, (1 << 5000) + 3
    public = rsa.RSAPublicNumbers(65537, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d=5, dmp1=5, dmq1=5, iqmp=5, public_numbers=public)
    key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    secret = serialization.BestAvailableEncryption(b"password") if password else serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret).decode()
    with pytest.raises(StoreProblem, match="10,001 bits") as refused:
        key_pair_from_text(text, "", password)
    assert refused.value.part == "key"


@pytest.mark.parametrize(
    "format",
    [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL],
)
def test_keys_as_they_are_made_are_opened(format: serialization.PrivateFormat) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    secret = serialization.BestAvailableEncryption(b"password")
    text = key.private_bytes(serialization.Encoding.PEM, format, secret).decode()
    with pytest.raises(StoreProblem) as certificate:
        key_pair_from_text(text, "none", "password")
    assert certificate.value.part == "certificate.chain", "the key is fine"
    with pytest.raises(StoreProblem, match="does not open the private key") as refused:
        key_pair_from_text(text, "none", "another")
    assert refused.value.part == "key.password"


@pytest.mark.parametrize("kind", ["PEM text", "PEM", "PKCS12"])
def test_certificates_are_limited_whatever_holds_them(tmp_path: Path, kind: str) -> None:
    certificate = x509.load_pem_x509_certificate(make_tls(tmp_path / "tls").authority.read_bytes())
    text = certificate.public_bytes(serialization.Encoding.PEM).decode() * 501
    location = tmp_path / "trusted"
    location.write_text(text)
    if kind == "PKCS12":
        # A serializer takes a certificate once: names of their own make them differ.
        friendly = [pkcs12.PKCS12Certificate(certificate, b"%d" % number) for number in range(501)]
        location.write_bytes(pkcs12.serialize_java_truststore(friendly, serialization.NoEncryption()))
    of_file = partial(trusted_from_file, str(location), None, kind, Files())
    with pytest.raises(StoreProblem, match="holds 501 certificates") as refused:
        trusted_from_text(text) if kind == "PEM text" else of_file()
    assert refused.value.part == ("certificates" if kind == "PEM text" else "location")


def test_an_algorithm_that_nobody_knows_is_an_error_of_the_key() -> None:
    with pytest.raises(StoreProblem) as refused:
        key_pair_from_text(encrypted(der(0x30, name("2a0304"), der(0x30))), "", "password")
    assert refused.value.part in ("key", "key.password")


def test_an_answer_is_kept_and_a_process_that_ends_is_no_error_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "store.p12"
    location.write_bytes(store())
    for executable in (sys.executable, "/bin/false"):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(StoreProblem, match="no private key with a certificate"):
            key_pair_from_file(str(location), "password", None, "PKCS12", Files())
    with pytest.raises(Overloaded, match="exit status 1"):
        key_pair_from_file(str(location), "another", None, "PKCS12", Files())
    monkeypatch.setattr(sys, "executable", "/no/such/file")
    with pytest.raises(Overloaded, match="No such file"):
        key_pair_from_file(str(location), "another", None, "PKCS12", Files())


def test_a_file_too_large_for_a_store_is_not_read(tmp_path: Path) -> None:
    location = tmp_path / "store.p12"
    location.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(StoreProblem, match="larger than 1048576 bytes") as refused:
        trusted_from_file(str(location), "password", "PKCS12", Files())
    assert refused.value.part == "location"


def test_a_text_that_begins_a_key_again_and_again_takes_no_longer_than_another() -> None:
    with pytest.raises(StoreProblem, match="holds no private key") as refused:
        key_pair_from_text("-----BEGIN PRIVATE KEY-----\n" * 37_000, "", None)
    assert refused.value.part == "key"
