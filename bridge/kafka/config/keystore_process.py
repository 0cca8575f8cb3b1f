"""The process that opens keys and stores with a password: `python -m bridge.kafka.config.keystore_process`.

It reads one request of bridge.kafka.config.tls from standard input, and writes the answer to standard output: PEM
texts under "key" and "chain", or "part" and "why" where it can't be opened. It ends with it. The format of a store is
found from its bytes, as the JVM does: one of type JKS may be PKCS12, and the other way round.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.exceptions import InternalError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from bridge.environment import limit

_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM = serialization.Encoding.PEM
MOST_BITS = 8192
"""Of a key. It signs in each handshake, in the event loop: 16,384 bits take several times as long, a million hours."""
_MOST_CERTIFICATES = 500
"""Of a store: systems trust some 150. The contexts of TLS that each client has read all of them, holding the
interpreter."""

Answer = Mapping[str, str]


class StoreProblem(ValueError):
    """Raised when something is wrong with a store; `part` ends the property that is to blame (location, ...)."""

    def __init__(self, part: str, why: str) -> None:
        super().__init__(why)
        self.part = part


def dump(certificates: Sequence[x509.Certificate], part: str) -> str:
    if len(certificates) > _MOST_CERTIFICATES:
        why = f"holds {len(certificates):,} certificates; {_MOST_CERTIFICATES} is the limit"
        raise StoreProblem(part, why)
    return "".join(certificate.public_bytes(_PEM).decode() for certificate in certificates)


def dump_key(key: object, part: str) -> str:
    bits = getattr(key, "key_size", 0)  # Ed25519 and its like have one size only
    if bits > MOST_BITS:
        raise StoreProblem(part, f"holds a private key of {bits:,} bits; {MOST_BITS:,} is the limit")
    assert hasattr(key, "private_bytes")
    data = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return str(data.decode())


def open_trust_store(part: str, data: str, password: str | None) -> Answer:
    store = base64.b64decode(data)
    if store[:4] in _JKS_MAGIC:
        opened = _jks(store, password)
        encoded = [entry.cert for entry in opened.certs.values()]
        encoded += [pair[1] for entry in opened.private_keys.values() for pair in entry.cert_chain]
        certificates = [x509.load_der_x509_certificate(der) for der in encoded]
    else:
        _, own, others = _pkcs12(store, password)
        certificates = [certificate for certificate in (own, *others) if certificate is not None]
    if not certificates:
        raise StoreProblem(part, "the trust store holds no certificate")
    return {"chain": dump(certificates, part)}


def open_key_store(part: str, data: str, password: str | None, key_password: str | None) -> Answer:
    store = base64.b64decode(data)
    if store[:4] in _JKS_MAGIC:
        return _jks_pair(_jks(store, password), key_password or password)
    key, own, others = _pkcs12(store, password)
    if key is None or own is None:
        raise StoreProblem(part, "the key store holds no private key with a certificate")
    return {"key": dump_key(key, part), "chain": dump([own, *others], part)}


def open_private_key(part: str, text: str, password: str) -> Answer:
    try:
        key = serialization.load_pem_private_key(
            text.encode(), password.encode(), unsafe_skip_rsa_key_validation=True
        )
    except TypeError:
        raise StoreProblem("key.password", "the key has no password") from None
    except ValueError:
        raise StoreProblem("key.password", "the password does not open the private key") from None
    return {"key": dump_key(key, part)}


QUESTIONS: Mapping[str, Callable[..., Answer]] = {
    "trust store": open_trust_store,
    "key store": open_key_store,
    "private key": open_private_key,
}


def answer_request(question: str, part: str, arguments: Mapping[str, Any]) -> Answer:
    try:
        return QUESTIONS[question](part, **arguments)
    except StoreProblem as problem:
        return {"part": problem.part, "why": str(problem)}
    except (MemoryError, InternalError):  # the latter from scrypt, beyond our limit or OpenSSL's own
        why = "opening it takes too much memory: encrypt it anew (openssl pkcs8 -topk8 -iter 600000)"
        return {"part": part, "why": why}
    except Exception as error:
        # The bytes come from outside, and the libraries let what their parsers raise through.
        return {"part": part, "why": f"can't be opened: {type(error).__name__}"}


def _jks(data: bytes, password: str | None) -> Any:
    """A jks.KeyStore. The package is imported late: most stores are PKCS12."""
    import jks

    try:
        return jks.KeyStore.loads(data, password, try_decrypt_keys=False)
    except jks.util.KeystoreSignatureException:
        raise StoreProblem("password", "the password does not open the store") from None
    except MemoryError:
        raise
    except Exception as error:
        # The bytes come from outside, and pyjks lets what its parsers raise through.
        raise StoreProblem("location", f"not a JKS store: {type(error).__name__}") from error


def _jks_pair(store: Any, password: str | None) -> Answer:
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
    key = serialization.load_der_private_key(
        entry.pkey_pkcs8, password=None, unsafe_skip_rsa_key_validation=True
    )
    return {
        "key": dump_key(key, "location"),
        "chain": dump([x509.load_der_x509_certificate(pair[1]) for pair in entry.cert_chain], "location"),
    }


_Pkcs12 = tuple[object | None, x509.Certificate | None, list[x509.Certificate]]


def _pkcs12(data: bytes, password: str | None) -> _Pkcs12:
    try:
        return pkcs12.load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower() or "mac" in str(error).lower():
            raise StoreProblem("password", "the password does not open the store") from None
        raise StoreProblem("location", "neither a PKCS12 nor a JKS store") from error


def main() -> None:
    request = json.load(sys.stdin)
    limit(**request["limits"])
    json.dump(answer_request(request["question"], request["part"], request["arguments"]), sys.stdout)


if __name__ == "__main__":
    main()
