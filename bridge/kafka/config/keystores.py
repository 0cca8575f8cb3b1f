"""Key and trust stores of the JVM, turned into PEM in memory: JKS, PKCS12 and PEM.

The format is detected from the bytes, as the JVM does: a store of type JKS may be PKCS12 and the other way round.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from bridge.kafka.config.files import Files, UnreadableFile
from bridge.kafka.config.key_costs import cost_problem

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_KEY = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_PEM = serialization.Encoding.PEM


class StoreProblem(ValueError):
    """Raised when something is wrong with a store; `part` ends the property that is to blame (location, ...)."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key without encryption, and its certificate chain, the own one first; both as PEM."""

    key: str = field(repr=False)
    chain: str = field(repr=False)


def trusted_from_file(location: str, password: str | None, kind: str, files: Files) -> str:
    """The certificates of a trust store as PEM."""
    data = _read(location, files)
    if kind.upper() == "PEM":
        return _certificates(_text(data), "location")
    if data[:4] in _JKS_MAGIC:
        store = _jks(data, password)
        encoded = [entry.cert for entry in store.certs.values()]
        encoded += [pair[1] for entry in store.private_keys.values() for pair in entry.cert_chain]
        certificates = [x509.load_der_x509_certificate(der) for der in encoded]
    else:
        _, own, others = _pkcs12(data, password)
        certificates = [certificate for certificate in (own, *others) if certificate is not None]
    if not certificates:
        raise StoreProblem("location", "the trust store holds no certificate")
    return _dump(certificates)


def trusted_from_text(text: str) -> str:
    return _certificates(text, "certificates")


def key_pair_from_file(
    location: str, password: str | None, key_password: str | None, kind: str, files: Files
) -> KeyPair:
    data = _read(location, files)
    if kind.upper() == "PEM":
        text = _text(data)
        return KeyPair(_private_key(text, key_password, "location"), _certificates(text, "location"))
    if data[:4] in _JKS_MAGIC:
        return _jks_pair(_jks(data, password), key_password or password)
    key, own, others = _pkcs12(data, password)
    if key is None or own is None:
        raise StoreProblem("location", "the key store holds no private key with a certificate")
    return KeyPair(_dump_key(key), _dump([own, *others]))


def key_pair_from_text(key: str, chain: str, key_password: str | None) -> KeyPair:
    return KeyPair(_private_key(key, key_password, "key"), _certificates(chain, "certificate.chain"))


def locked(key: str, password: str) -> str:
    """A private key of a KeyPair, encrypted with the password."""
    opened = serialization.load_pem_private_key(key.encode(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return opened.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def _read(location: str, files: Files) -> bytes:
    try:
        return files.read(location)
    except UnreadableFile as why:
        raise StoreProblem("location", f"the service can't read the file: {why}") from None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _jks(data: bytes, password: str | None) -> Any:
    """A jks.KeyStore. The package is imported late: most configurations have no such store."""
    import jks

    try:
        return jks.KeyStore.loads(data, password, try_decrypt_keys=False)
    except jks.util.KeystoreSignatureException:
        raise StoreProblem("password", "the password does not open the store") from None
    except Exception as error:
        # The bytes come from outside, and pyjks lets what its parsers raise through.
        raise StoreProblem("location", f"not a JKS store: {type(error).__name__}") from error


def _jks_pair(store: Any, password: str | None) -> KeyPair:
    import jks

    entry = next(iter(store.private_keys.values()), None)
    if entry is None:
        raise StoreProblem("location", "the key store holds no private key")
    if password is None:
        raise StoreProblem("key.password", "the private key needs a password")
    try:
        entry.decrypt(password)
    except jks.util.DecryptionFailureException:
        raise StoreProblem("key.password", "the password does not open the private key") from None
    key = serialization.load_der_private_key(entry.pkey_pkcs8, password=None)
    return KeyPair(
        _dump_key(key), _dump([x509.load_der_x509_certificate(pair[1]) for pair in entry.cert_chain])
    )


_Pkcs12 = tuple[object | None, x509.Certificate | None, list[x509.Certificate]]


def _pkcs12(data: bytes, password: str | None) -> _Pkcs12:
    if (problem := cost_problem(data)) is not None:
        raise StoreProblem("location", problem)
    try:
        return pkcs12.load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower() or "mac" in str(error).lower():
            raise StoreProblem("password", "the password does not open the store") from None
        raise StoreProblem("location", "neither a PKCS12 nor a JKS store") from error


def _private_key(text: str, password: str | None, part: str) -> str:
    match = _KEY.search(text)
    if match is None:
        raise StoreProblem(part, "holds no private key as PEM text")
    secret = None if password is None else password.encode()
    for encoded in _encoded(match.group()):
        if (problem := cost_problem(encoded)) is not None:
            raise StoreProblem(part, problem)
    try:
        # Whether its numbers are primes shows in the handshake: to look takes seconds for a large key.
        key = serialization.load_pem_private_key(
            match.group().encode(), secret, unsafe_skip_rsa_key_validation=True
        )
    except TypeError:
        why = (
            "the private key is encrypted and needs a password"
            if password is None
            else "the key has no password"
        )
        raise StoreProblem("key.password", why) from None
    except ValueError:
        wrong = "key.password" if password is not None else part
        why = (
            "the password does not open the private key"
            if password is not None
            else "not a private key as PEM"
        )
        raise StoreProblem(wrong, why) from None
    return _dump_key(key)


def _encoded(pem: str) -> Iterator[bytes]:
    """Yields what a PEM text may encode: all of it, and what stands behind headers, as old keys have them (RFC
    1421)."""
    body = "\n".join(line.strip() for line in pem.split("-----")[2].splitlines())
    headers, blank, rest = body.strip().partition("\n\n")
    for text in (headers + rest, rest) if blank else (headers,):
        plain = "".join(line for line in text.splitlines() if ":" not in line)
        with suppress(binascii.Error):
            yield base64.b64decode(plain + "=" * (-len(plain) % 4))


def _certificates(text: str, part: str) -> str:
    try:
        return _dump(x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        raise StoreProblem(part, "holds no X.509 certificate as PEM text") from None


def _dump(certificates: Sequence[x509.Certificate]) -> str:
    return "".join(certificate.public_bytes(_PEM).decode() for certificate in certificates)


def _dump_key(key: object) -> str:
    assert hasattr(key, "private_bytes")
    data = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return str(data.decode())
