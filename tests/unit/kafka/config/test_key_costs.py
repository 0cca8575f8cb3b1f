"""Keys that take long to open are refused before they are."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from bridge.kafka.config.key_costs import MOST_MEMORY, MOST_ROUNDS, cost_problem
from bridge.kafka.config.keystores import StoreProblem, key_pair_from_text

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


def encrypted(derivation: bytes) -> bytes:
    """A key of a thousand bytes under PBES2."""
    scheme = der(0x30, name(AES), der(4, bytes(16)))
    algorithm = der(0x30, name(PBES2), der(0x30, derivation, scheme))
    return der(0x30, algorithm, der(4, bytes(1008)))


def by_rounds(rounds: int) -> bytes:
    return encrypted(der(0x30, name(PBKDF2), der(0x30, SALT, number(rounds))))


def by_memory(n: int, r: int = 8, p: int = 1) -> bytes:
    return encrypted(der(0x30, name(SCRYPT), der(0x30, SALT, number(n), number(r), number(p))))


def pem(data: bytes, *, headers: str = "", width: int = 64) -> str:
    text = base64.b64encode(data).decode()
    lines = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{headers}{lines}\n-----END ENCRYPTED PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("data", "costs"),
    [
        (by_rounds(2048), ""),
        (by_rounds(MOST_ROUNDS), ""),
        (by_rounds(MOST_ROUNDS + 1), "rounds"),
        (by_rounds(40_000_000), "40,000,000 rounds"),
        (by_rounds(1 << 120), "rounds"),
        (by_memory(16_384), ""),
        (by_memory(MOST_MEMORY // 128 // 8), ""),
        (by_memory(98_304), "96 MiB"),
        (by_memory(1024, 8, 1_000_000), "rounds"),
        (der(0x30, by_rounds(900_000), by_rounds(900_000)), "1,800,000 rounds"),
        (der(0x30, der(4, by_rounds(2_000_000))), "2,000,000 rounds"),
        (der(0x30, der(0x30, name(AES), der(0x30)), SALT, number(3_000_000)), "3,000,000 rounds"),
        (b"", ""),
        (b"\x30\x84\xff\xff\xff\xff", ""),
        (b"\x30\x80" * 5000, ""),
        (b"\x30\x82\x03\xe8" * 1000, ""),
    ],
)
def test_what_it_costs_is_known_before(data: bytes, costs: str) -> None:
    problem = cost_problem(data)
    assert (problem is None) == (not costs)
    assert costs in (problem or "")


@pytest.mark.parametrize(
    "text",
    [
        pem(by_rounds(40_000_000)),
        pem(by_rounds(40_000_000), width=4000),
        pem(by_rounds(40_000_000), headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: x\n\n"),
        pem(by_rounds(40_000_000), headers="A: b\n"),
        pem(by_rounds(40_000_000), headers="MIIB\n\n"),
        pem(by_rounds(40_000_000)).replace("\n", "\r\n"),
        pem(by_rounds(40_000_000)).replace("\n", " \n\t"),
    ],
)
def test_a_key_of_many_rounds_is_not_opened(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[bytes]()

    def load(data: bytes, *_: object, **__: object) -> None:
        opened.append(data)

    monkeypatch.setattr(serialization, "load_pem_private_key", load)
    with pytest.raises(StoreProblem) as refused:
        key_pair_from_text(text, "", "password")
    assert refused.value.part == "key"
    assert not opened


def test_keys_as_they_are_made_are_opened() -> None:
    secret = serialization.BestAvailableEncryption(b"password")
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret).decode()
    for form in (text, text.replace("\n", "\r\n")):
        with pytest.raises(StoreProblem) as certificate:
            key_pair_from_text(form, "none", "password")
        assert certificate.value.part == "certificate.chain", "the key is fine"
    strong = (
        serialization.PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(MOST_ROUNDS // 2)
        .hmac_hash(hashes.SHA256())
        .build(b"password")
    )
    assert cost_problem(pkcs12.serialize_key_and_certificates(b"n", key, None, None, secret)) is None
    large = rsa.generate_private_key(65537, 2048)
    assert cost_problem(pkcs12.serialize_key_and_certificates(b"n", large, None, None, strong)) is None
