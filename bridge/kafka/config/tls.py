"""TLS: from `ssl.*` to PEM in memory, and from there to either client."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from dataclasses import dataclass, field

from bridge.kafka.config.keystore_process import StoreProblem
from bridge.kafka.config.keystores import (
    KeyPair,
    key_pair_from_file,
    key_pair_from_text,
    locked,
    trusted_from_file,
    trusted_from_text,
)
from bridge.kafka.config.memory_files import memory_file, path_of
from bridge.kafka.config.properties import ClientProps
from bridge.model.java_values import split_list

_PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_PROTOCOLS = ("SSLv3", "TLSv1", "TLSv1.1")
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"


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
    identification = props.get(_IDENTIFICATION) if props.given(_IDENTIFICATION) else "https"
    if identification.lower() not in ("https", ""):
        props.reject(_IDENTIFICATION, "must be https, or empty for no check of the host name")
    trusted = _trusted(props)
    own = _own(props)
    if len(props.errors) > before:
        return None
    return Tls(trusted, own, check_host=bool(identification))


def _check_protocols(props: ClientProps) -> None:
    """Older versions beside TLSv1.2 are never negotiated; nor can TLSv1.3 be turned off, which is no weaker."""
    given = list(filter(None, split_list(props.get("ssl.enabled.protocols"))))
    if given and "TLSv1.2" not in given:
        both = ",".join(_PROTOCOLS)
        why = f"must allow TLSv1.2, as in {both}; librdkafka negotiates the higher one that both sides have"
        props.reject("ssl.enabled.protocols", why)
    elif unknown := [name for name in given if name not in (*_PROTOCOLS, *_OLD_PROTOCOLS)]:
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
