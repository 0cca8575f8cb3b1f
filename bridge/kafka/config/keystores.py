"""Key and trust stores of the JVM, turned into PEM in memory: JKS, PKCS12 and PEM.

What has a password is opened in a process of its own (keystore_process): whoever writes a configuration chooses the
rounds of its key derivation, and the library holds the interpreter until it has done them. That process is killed when
it takes more than its processor time or memory, which is an error of the key; nothing else waits.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bridge.child_process import ending, python_command
from bridge.environment import for_child
from bridge.errors import Overloaded
from bridge.kafka.config.files import Files, UnreadableFile
from bridge.kafka.config.keystore_process import StoreProblem, dump, dump_key

CPU_SECONDS = 3
"""Processor time that opening may take, with the start of the process (0.1 s). A million rounds of SHA-512 take 0.4 s;
OpenSSL makes 2,048 by default, Java 10,000; 600,000 are recommended."""
MEMORY = 160 << 20
"""Bytes that opening may take, 30 MiB of them for the process itself; scrypt takes 16 MiB by default."""
_SECONDS = 30.0
"""On a machine that has no processor to spare."""
_MOST_BYTES = 1 << 20
"""Of a file. The trust store of a JDK has 200 kB."""
_KEPT = 16
"""Answers for stores of late: one configuration reads each for the clients of every role."""
_MODULE = "bridge.kafka.config.keystore_process"

_KEY = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----")
_PEM = serialization.Encoding.PEM


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
    return _open("trust store", "location", data=_encoded(data), password=password)["chain"]


def trusted_from_text(text: str) -> str:
    return _certificates(text, "certificates")


def key_pair_from_file(
    location: str, password: str | None, key_password: str | None, kind: str, files: Files
) -> KeyPair:
    data = _read(location, files)
    if kind.upper() == "PEM":
        text = _text(data)
        return KeyPair(_private_key(text, key_password, "location"), _certificates(text, "location"))
    answer = _open("key store", "location", data=_encoded(data), password=password, key_password=key_password)
    return KeyPair(answer["key"], answer["chain"])


def key_pair_from_text(key: str, chain: str, key_password: str | None) -> KeyPair:
    return KeyPair(_private_key(key, key_password, "key"), _certificates(chain, "certificate.chain"))


def locked(key: str, password: str) -> str:
    """A private key of a KeyPair, encrypted with the password."""
    opened = serialization.load_pem_private_key(key.encode(), None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return opened.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def _read(location: str, files: Files) -> bytes:
    try:
        return replace(files, most=min(files.most, _MOST_BYTES)).read(location)
    except UnreadableFile as why:
        raise StoreProblem("location", f"the service can't read the file: {why}") from None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _private_key(text: str, password: str | None, part: str) -> str:
    begin = _KEY.search(text)
    # Searched for once: a text may begin a key many times, and end none.
    end = -1 if begin is None else text.find(last := f"-----END {begin[1]}-----", begin.end())
    if begin is None or end < 0:
        raise StoreProblem(part, "holds no private key as PEM text")
    pem = text[begin.start() : end + len(last)]
    if password is not None:
        return _open("private key", part, text=pem, password=password)["key"]
    try:
        # Whether its numbers are primes shows in the handshake: to look takes seconds for a large key.
        key = serialization.load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    except TypeError:
        raise StoreProblem("key.password", "the private key is encrypted and needs a password") from None
    except ValueError:
        raise StoreProblem(part, "not a private key as PEM") from None
    return dump_key(key, part)


def _certificates(text: str, part: str) -> str:
    try:
        certificates = x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise StoreProblem(part, "holds no X.509 certificate as PEM text") from None
    return dump(certificates, part)


def _open(question: str, part: str, **arguments: str | None) -> Mapping[str, str]:
    """Asks the process. `part` is to blame where opening takes too much. Raises StoreProblem, and Overloaded where the
    process did not answer."""
    limits = {"cpu_seconds": CPU_SECONDS, "memory": MEMORY}
    answer = _ask(json.dumps({"question": question, "part": part, "limits": limits, "arguments": arguments}))
    if "why" in answer:
        raise StoreProblem(answer["part"], answer["why"])
    return answer


@lru_cache(maxsize=_KEPT)
def _ask(request: str) -> Mapping[str, str]:
    try:
        done = subprocess.run(
            python_command(_MODULE),
            input=request.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            env=for_child(),
        )
    except subprocess.TimeoutExpired:
        raise _unanswered(f"it took more than {_SECONDS:g} s") from None
    except OSError as error:
        raise _unanswered(f"it could not be started: {error}") from None
    if done.returncode == 0:
        answer: Mapping[str, str] = json.loads(done.stdout)
        return answer
    if done.returncode == -signal.SIGXCPU:
        why = (
            f"opening it takes more than {CPU_SECONDS} s of processor time: its key derivation has too many rounds, or "
            "the key too many bits; encrypt it anew (openssl pkcs8 -topk8 -iter 600000)"
        )
        return {"part": json.loads(request)["part"], "why": why}
    raise _unanswered(ending(done.returncode))


def _unanswered(why: str) -> Overloaded:
    return Overloaded(f"the process that opens key stores did not answer: {why}")
