"""TLS: from `ssl.*` to PEM in memory, and from there to either client.

Key and trust stores of the JVM, turned into PEM in memory: JKS, PKCS12 and PEM.

What has a password is opened in a process of its own (keystore_process): whoever writes a configuration chooses the
rounds of its key derivation, and the library holds the interpreter until it has done them. That process is killed when
it takes more than its processor time or memory, which is an error of the key; nothing else waits.

Files that are in memory only, for code that takes nothing but a path: none outlives its process.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bridge.child_process import ending, python_command
from bridge.environment import for_child
from bridge.errors import Overloaded
from bridge.kafka.config.files import Files, UnreadableFile
from bridge.kafka.config.keystore_process import StoreProblem, dump, dump_key
from bridge.kafka.config.properties import ClientProps
from bridge.model.java_values import split_list

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
_PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_PROTOCOLS = ("SSLv3", "TLSv1", "TLSv1.1")
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"


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


@contextmanager
def memory_file(data: bytes) -> Iterator[int | None]:
    """A descriptor of an open file with the data, for the time of the block; None where the system has no such files.

    Its path is `path_of(descriptor)`: here, and in a child that inherits the descriptor. It is empty after the block
    for whoever still has it open.
    """
    try:
        descriptor = os.memfd_create("mirror-bridge")
    except (AttributeError, OSError):
        yield None
        return
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield descriptor
    finally:
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings. `trusted`: PEM text; None: the certificate authorities of the system."""

    trusted: str | None
    own: KeyPair | None = field(repr=False)
    check_host: bool

    def librdkafka(self) -> dict[str, str | int | float]:
        settings: dict[str, str | int | float] = {_IDENTIFICATION: "https" if self.check_host else "none"}
        if self.trusted is not None:
            settings["ssl.ca.pem"] = self.trusted
        if self.own is not None:
            settings |= {"ssl.key.pem": self.own.key, "ssl.certificate.pem": self.own.chain}
        return settings

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.trusted)
        context.check_hostname = self.check_host
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.own is not None:
            _load_chain(context, self.own)
        return context


def read_tls(props: ClientProps) -> Tls | None:
    """Reads the TLS settings; None when something is wrong, which is then in `props.errors`."""
    before = len(props.errors)
    _check_protocols(props)
    identification = props.get(_IDENTIFICATION) if props.has(_IDENTIFICATION) else "https"
    if identification.lower() not in ("https", ""):
        props.reject(_IDENTIFICATION, "must be https, or empty for no check of the host name")
    trusted = _trusted(props)
    own = _own(props)
    if len(props.errors) > before:
        return None
    return Tls(trusted, own, check_host=bool(identification))


def _check_protocols(props: ClientProps) -> None:
    """Older versions beside TLSv1.2 are never negotiated; nor can TLSv1.3 be turned off, which is no weaker."""
    protocols = list(filter(None, split_list(props.get("ssl.enabled.protocols"))))
    if protocols and "TLSv1.2" not in protocols:
        both = ",".join(_PROTOCOLS)
        why = f"must allow TLSv1.2, as in {both}; librdkafka negotiates the higher one that both sides have"
        props.reject("ssl.enabled.protocols", why)
    elif unknown := [name for name in protocols if name not in (*_PROTOCOLS, *_OLD_PROTOCOLS)]:
        props.reject("ssl.enabled.protocols", f"{', '.join(unknown)} is not supported; remove it")


def _trusted(props: ClientProps) -> str | None:
    prefix = "ssl.truststore."
    kind = _kind(props, prefix)
    location, text = props.get(prefix + "location"), props.get(prefix + "certificates")
    if text and not _inline(props, prefix, kind, location, "certificates"):
        return None
    try:
        if text:
            return trusted_from_text(text)
        if location:
            _no_password_for_pem(props, prefix, kind)
            return trusted_from_file(location, props.get(prefix + "password") or None, kind, props.files)
    except StoreProblem as problem:
        props.reject(prefix + problem.part, str(problem))
    return None


def _own(props: ClientProps) -> KeyPair | None:
    prefix = "ssl.keystore."
    kind = _kind(props, prefix)
    location, key = props.get(prefix + "location"), props.get(prefix + "key")
    chain = props.get(prefix + "certificate.chain")
    key_password = props.get("ssl.key.password") or None
    if key and not _inline(props, prefix, kind, location, "key"):
        return None
    if bool(key) != bool(chain):
        name = "certificate.chain" if key else "key"
        props.missing(prefix + name, "ssl.keystore.key and ssl.keystore.certificate.chain come together")
        return None
    try:
        if key:
            return key_pair_from_text(key, chain, key_password)
        if location:
            _no_password_for_pem(props, prefix, kind)
            password = props.get(prefix + "password") or None
            return key_pair_from_file(location, password, key_password, kind, props.files)
    except StoreProblem as problem:
        props.reject(
            "ssl.key.password" if problem.part == "key.password" else prefix + problem.part, str(problem)
        )
    return None


def _kind(props: ClientProps, prefix: str) -> str:
    kind = props.get(prefix + "type") or "JKS"
    if kind.upper() not in ("JKS", "PKCS12", "PEM"):
        props.reject(prefix + "type", "String must be one of (case insensitive): JKS, PKCS12, PEM")
        return "JKS"
    return kind.upper()


def _inline(props: ClientProps, prefix: str, kind: str, location: str, part: str) -> bool:
    if kind != "PEM":
        props.reject(prefix + "type", f"{prefix}{part} holds PEM text, so the type must be PEM")
    elif location:
        props.reject(prefix + "location", f"{prefix}{part} is given too; give only one of the two")
    else:
        return True
    return False


def _no_password_for_pem(props: ClientProps, prefix: str, kind: str) -> None:
    if kind == "PEM" and props.get(prefix + "password"):
        props.reject(prefix + "password", "a PEM file has no store password; remove it")


def _load_chain(context: ssl.SSLContext, own: KeyPair) -> None:
    """SSLContext reads keys from files only: one in memory, or one that is useless to whoever finds it."""
    with memory_file((own.chain + own.key).encode("ascii")) as descriptor:
        if descriptor is not None:
            context.load_cert_chain(path_of(descriptor))
            return
    # A file on a disk stays when the process is killed: the key in it is locked, and the password is here only.
    password = secrets.token_hex(32)
    with tempfile.NamedTemporaryFile("w", prefix="mirror-bridge-", encoding="ascii") as file:
        file.write(own.chain + locked(own.key, password))
        file.flush()
        context.load_cert_chain(file.name, password=password)
