"""Security of a broker beside its plain listener: users, certificates, an authorizer."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

OAUTH = "OAUTHBEARER"
ISSUER, AUDIENCE = "https://idp.example.org", "kafka"
"""Of the tokens that brokers of the stack take."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the certificate authority, and key with certificate of the broker and of a client."""

    authority: Path
    server: Path
    client: Path

    @property
    def authority_key(self) -> Path:
        return self.authority.with_name(f"{self.authority.stem}-key.pem")

    def client_file(self, name: str) -> Path:
        """The file of another client that `make_tls` was asked for."""
        return self.client.with_name(f"{name}.pem")


@dataclass(frozen=True, slots=True)
class Security:
    """Listeners beyond PLAINTEXT.

    With users there is a SASL_PLAINTEXT listener (PLAIN and SCRAM), with tls an SSL one, with both SASL_SSL too.
    `jwks`: a file with the keys of an identity provider; the SASL listeners then take its tokens (OAUTHBEARER), from
    ISSUER for AUDIENCE. With `authorizer` everything needs an ACL, except for super users: those named
    here and ANONYMOUS, the user of every client on the plain listener (the stack itself).
    """

    users: Mapping[str, str] = field(default_factory=dict)
    tls: TlsFiles | None = None
    authorizer: bool = False
    super_users: tuple[str, ...] = ()
    jwks: Path | None = None

    @property
    def listeners(self) -> tuple[str, ...]:
        names = []
        sasl = bool(self.users or self.jwks)
        if sasl:
            names.append("SASL_PLAINTEXT")
        if self.tls:
            names.append("SSL")
        if sasl and self.tls:
            names.append("SASL_SSL")
        return tuple(names)

    def properties(self) -> dict[str, str]:
        """The broker properties."""
        properties: dict[str, str] = {}
        listeners = [name for name in self.listeners if name.startswith("SASL")]
        mechanisms = (["PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"] if self.users else []) + [OAUTH] * bool(self.jwks)
        if listeners:
            properties["sasl.enabled.mechanisms"] = ",".join(mechanisms)
        if self.users:
            properties |= _sasl(self.users, listeners)
        if self.jwks:
            properties |= _tokens(self.jwks, listeners)
        if self.tls:
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.tls.server),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.tls.authority),
                # Without a certificate a client would be ANONYMOUS, whom the authorizer lets do everything.
                "ssl.client.auth": "required" if self.authorizer else "requested",
            }
        if self.authorizer:
            supers = ("ANONYMOUS", *self.super_users)
            properties |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ";".join(f"User:{name}" for name in supers),
            }
        return properties

    def jvm_options(self) -> tuple[str, ...]:
        """Which URLs and files the broker's JVM may read."""
        if self.jwks is None:
            return ()
        allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        return (f"{allowed}.urls={self.jwks.as_uri()}", f"{allowed}.files={self.jwks}")

    def format_options(self) -> list[str]:
        """Options of StorageTool that store the SCRAM credentials."""
        return [
            option
            for user, password in self.users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for option in ("--add-scram", f"{mechanism}=[name={user},password={password}]")
        ]


def _sasl(users: Mapping[str, str], listeners: list[str]) -> dict[str, str]:
    plain = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    properties = {}
    package = "org.apache.kafka.common.security"
    for listener in listeners:
        prefix = f"listener.name.{listener.lower()}"
        properties[f"{prefix}.plain.sasl.jaas.config"] = f"{package}.plain.PlainLoginModule required {plain};"
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            properties[f"{prefix}.{mechanism}.sasl.jaas.config"] = (
                f"{package}.scram.ScramLoginModule required;"
            )
    return properties


def _tokens(jwks: Path, listeners: list[str]) -> dict[str, str]:
    package = "org.apache.kafka.common.security.oauthbearer"
    properties: dict[str, str] = {}
    for listener in listeners:
        prefix = f"listener.name.{listener.lower()}.oauthbearer."
        handler = f"{package}.OAuthBearerValidatorCallbackHandler"
        properties |= {
            f"{prefix}sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{prefix}sasl.server.callback.handler.class": handler,
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            f"{prefix}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
            f"{prefix}sasl.oauthbearer.clock.skew.seconds": "0",
        }
    return properties


def make_tls(directory: Path, issuer: str = "Local Stack Authority", clients: Sequence[str] = ()) -> TlsFiles:
    """Makes a certificate authority, and certificates for a broker on localhost, a client named `client`, and
    others."""
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate(issuer, key, issuer, key, authority=True)
    files = TlsFiles(directory / "authority.pem", directory / "server.pem", directory / "client.pem")
    files.authority.write_bytes(authority)
    _write_key(files.authority_key, key)
    named = {
        "localhost": files.server,
        "client": files.client,
        **{name: files.client_file(name) for name in clients},
    }
    for name, file in named.items():
        own = ec.generate_private_key(ec.SECP256R1())
        _write_key(file, own, _certificate(name, own, issuer, key) + authority)
    return files


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey, certificates: bytes = b"") -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.touch(mode=0o600)
    file.write_bytes(pem + certificates)


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
) -> bytes:
    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(subject))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
