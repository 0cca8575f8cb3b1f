"""Settings of `mirror-bridge serve`, from flags and the environment (`MIRROR_BRIDGE_…`); a flag wins.

Settings of the service that limit what its clients can use: threads, connections, bytes and time.

Settings of the service that say what connector configurations may name.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import re
import ssl
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bridge.policy import Policy
from bridge.tokens import Tokens, check_token, read_tokens, remarks

Patterns = Annotated[tuple[str, ...], NoDecode]
_MODULE = re.compile(r"\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
ENV_PREFIX = "MIRROR_BRIDGE_"
ANY_HOST = "*"
_NEAR = 0.93
"""How alike two names are, of 1: a letter too many, too few or another one, or two that have changed places."""
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
_NO_AUTH = (
    "host {host} is not loopback, and anyone who reaches the port would have access: set auth_token_file "
    f"({ENV_PREFIX}AUTH_TOKEN_FILE) or tls_client_ca ({ENV_PREFIX}TLS_CLIENT_CA); insecure_no_auth "
    f"({ENV_PREFIX}INSECURE_NO_AUTH=true) lets everybody in"
)
_OTHERS = ("URL", "CA", "CLIENT_CERT", "CLIENT_KEY", "CACHE", "ALLOWED_URLS")
"""Names that others read: commands, the plugin."""


class LimitSettings(BaseSettings):
    """A part of the settings of `serve`."""

    pool_size: int = Field(
        2,
        ge=1,
        le=64,
        description="Threads each for checking configurations of what starts, for validations, and for questions.",
    )
    pool_queue: int = Field(32, ge=0, le=10_000, description="Requests that may wait for a thread; then 503.")
    check_seconds: float = Field(
        5.0, ge=0.1, le=60, description="Time that checking a configuration may take; then 503."
    )
    max_body_bytes: int = Field(1 << 20, ge=1024, le=16 << 20, description="Larger request bodies get 413.")
    max_header_bytes: int = Field(
        16 << 10, ge=4096, le=1 << 20, description="Requests with a larger head get 400."
    )
    max_connections: int = Field(
        4096, ge=8, le=60_000, description="Further ones get 503; with TLS they are closed."
    )
    max_connections_per_address: int = Field(
        3072, ge=1, le=60_000, description="Of one address; three quarters of all at most."
    )
    max_failed_logins: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="Different wrong tokens of one address in a minute; then 429 until it is over.",
    )
    head_seconds: float = Field(
        10.0, ge=0.1, le=600, description="Time for a TLS handshake, and for a request's head; then 408."
    )
    body_seconds: float = Field(30.0, ge=0.1, le=600, description="Time for a request's body; then 408.")


class PolicySettings(BaseSettings):
    """Lists, with commas between their items; docs/security.md says what is always allowed."""

    allowed_spark_keys: Patterns = Field(
        (),
        description="Further spark.* keys that configurations may have: KEY or KEY=VALUE, with * for any characters.",
    )
    allowed_spark_masters: Patterns = Field(
        (),
        description="Values that spark.master may have beside local ones, as spark://host:7077 or yarn.",
    )
    allowed_python_modules: Patterns = Field(
        (), description="Modules, each with all below it, that python: may name beside ours."
    )
    allowed_folders: Patterns = Field(
        (), description="Folders that files of configurations must lie below; any where none is given."
    )
    allowed_bootstrap: Patterns = Field(
        (), description="Bootstrap servers as host:port, with * for any characters; any where none is given."
    )
    allowed_token_endpoints: Patterns = Field(
        (),
        description="Hosts of OAuth token endpoints as host or host:port, with * for any characters; any but loopback "
        "and link-local ones where none is given.",
    )
    allowed_aws_roles: Patterns = Field(
        (),
        description="Roles (ARNs) and profiles of AWS that logins by IAM may take, with * for any characters; any on "
        "loopback without a token where none is given, and else none.",
    )
    import_seconds: float = Field(
        3.0, gt=0, le=60, description="Time in which Python code that a configuration names has to be loaded."
    )

    @field_validator(
        "allowed_spark_keys",
        "allowed_spark_masters",
        "allowed_python_modules",
        "allowed_folders",
        "allowed_bootstrap",
        "allowed_token_endpoints",
        "allowed_aws_roles",
        mode="before",
    )
    @classmethod
    def _items(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return [item for text in value.split(",") if (item := text.strip())]

    @field_validator("allowed_spark_keys")
    @classmethod
    def _are_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if text != "*" and not text.startswith("spark."):
                raise ValueError(f"{text!r} is no spark.* key")
        return value

    @field_validator("allowed_python_modules")
    @classmethod
    def _are_modules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if _MODULE.fullmatch(text) is None:
                raise ValueError(f"{text!r} is no module: give names like mycompany.mirror, or * for any")
        return value

    @field_validator("allowed_folders")
    @classmethod
    def _are_folders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if not text.startswith("/"):
                raise ValueError(f"{text!r} is no folder: give its whole path, which begins with /")
        return value

    @field_validator("allowed_bootstrap")
    @classmethod
    def _are_servers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if text != "*" and re.fullmatch(r"[^\s/]+:[0-9*?]+", text) is None:
                raise ValueError(f"{text!r} is not of the form host:port; for any port give host:*")
        return tuple(text.lower() for text in value)

    @field_validator("allowed_token_endpoints")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if re.fullmatch(r"[^\s/@\[\]:]+(:[0-9*?]+)?", text) is None:
                raise ValueError(f"{text!r} is not of the form host or host:port")
        return tuple(text.lower() for text in value)

    def policy(self) -> Policy:
        return Policy(
            spark_keys=self.allowed_spark_keys,
            spark_masters=self.allowed_spark_masters,
            python_modules=self.allowed_python_modules,
            folders=self.allowed_folders,
            bootstrap=self.allowed_bootstrap,
            token_endpoints=self.allowed_token_endpoints,
            aws_roles=self.allowed_aws_roles,
            import_seconds=self.import_seconds,
        )


class SettingsRejected(Exception):
    """Settings with at least one error; the text is one line and carries no value that may be secret."""


class ServerContext(ssl.SSLContext):
    """`lists_end`: when the first of its revocation lists ends, in Unix seconds."""

    lists_end: float = math.inf


class Settings(PolicySettings, LimitSettings):
    """All settings of `serve`. Everything about clusters is in the connectors' configurations, not here."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(8900, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    auth_token: SecretStr | None = Field(None, description="Bearer token that /v1 asks for.")
    auth_token_file: Path | None = Field(
        None,
        description="File with the bearer token, or with two on a line each; read again when it changes.",
    )
    read_token: SecretStr | None = Field(None, description="Bearer token that may read and change nothing.")
    read_token_file: Path | None = Field(
        None, description="File with the token that may only read, as auth_token_file."
    )
    insecure_no_auth: bool = Field(
        False,
        description="Listen beyond loopback without authentication: anyone who reaches the port has access.",
    )
    allowed_hosts: Annotated[tuple[str, ...] | None, NoDecode] = Field(
        None,
        description="Names in requests' Host header, with commas between them; * is any. IP addresses always pass.",
    )
    tls_cert: Path | None = Field(None, description="PEM certificate chain; HTTPS when given with the key.")
    tls_key: Path | None = Field(None, description="PEM private key.")
    tls_client_ca: Path | None = Field(
        None, description="PEM file of the CA that client certificates must have."
    )
    tls_client_crl: Path | None = Field(
        None, description="PEM file of the revocation lists of that CA; read again when it changes."
    )
    tls_changing_subjects: Annotated[tuple[str, ...] | None, NoDecode] = Field(
        None,
        description="Subjects of client certificates that may change things, with semicolons; others may read.",
    )
    open_paths: tuple[str, ...] = Field(
        ("/health", "/metrics"), description="Paths, with all below them, that need no token."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level to log.")
    log_format: Literal["text", "json"] = Field(
        "text", description="Format of the log's lines: text or json."
    )
    audit_log_file: Path | None = Field(
        None,
        description="File for the audit log, a JSON line for each change; without it they are in the log.",
    )
    oauth_http_hosts: str = Field(
        "", description="Hosts whose token endpoints may be asked over http, with commas between them."
    )
    shutdown_grace_seconds: float = Field(10.0, gt=0, le=600, description="Time to end in after SIGTERM.")

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("auth_token", "read_token")
    @classmethod
    def _token_is_usable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_token(value.get_secret_value())
        return value

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _hosts_in_a_line(cls, value: object) -> object:
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts_are_names(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in value or ():
            if (
                not name
                or any(letter in name for letter in "/:@ ")
                or (ANY_HOST in name and name != ANY_HOST)
            ):
                raise ValueError(f"{name!r} is not the name of a host: give it without scheme, port and path")
        return None if value is None else tuple(name.lower().rstrip(".") for name in value)

    @field_validator("tls_changing_subjects", mode="before")
    @classmethod
    def _subjects_in_a_line(cls, value: object) -> object:
        return [name.strip() for name in value.split(";")] if isinstance(value, str) else value

    @field_validator("tls_changing_subjects")
    @classmethod
    def _subjects_are_names(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if value is None else tuple(map(_subject, value))

    @field_validator("open_paths")
    @classmethod
    def _paths_begin_with_a_slash(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for path in value:
            if not path.startswith("/") or path.endswith("/"):
                raise ValueError(
                    f"{path!r} is not a path like /health: it begins with a slash and ends without one"
                )
        return value

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        problems: list[str] = []
        for name in ("auth_token", "read_token"):
            if getattr(self, name) is not None and getattr(self, f"{name}_file") is not None:
                problems.append(f"give {name} or {name}_file, not both")
        if not (_is_loopback(self.host) or self.authenticates() or self.insecure_no_auth):
            problems.append(_NO_AUTH.format(host=self.host))
        if (self.tls_cert is None) != (self.tls_key is None):
            problems.append("tls_cert and tls_key are needed together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            problems.append("tls_client_ca needs tls_cert and tls_key")
        for name in ("tls_client_crl", "tls_changing_subjects"):
            if getattr(self, name) is not None and self.tls_client_ca is None:
                problems.append(f"{name} needs tls_client_ca: without it clients show no certificate")
        if not problems:
            try:
                self.tokens()
            except ValueError as error:
                problems.append(str(error))
        if not problems and self.tls_cert is not None:
            try:
                self.tls()
            except (OSError, ValueError) as error:
                problems.append(f"tls_cert, tls_key, tls_client_ca or tls_client_crl can't be used: {error}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def tokens(self) -> Tokens:
        """The tokens as they are now, files read. Raises ValueError, which names the setting and shows no token."""
        tokens = Tokens(
            read_tokens("auth_token", self.auth_token, self.auth_token_file),
            read_tokens("read_token", self.read_token, self.read_token_file),
        )
        if tokens.reading and not tokens.changing:
            raise ValueError(
                "read_token needs auth_token or auth_token_file: without one everybody may change things"
            )
        if set(tokens.reading) & set(tokens.changing):
            raise ValueError(
                "read_token is also an auth_token: a token that may only read has to be another one"
            )
        return tokens

    def token_remarks(self) -> list[str]:
        """Returns what is weak about the tokens."""
        tokens = self.tokens()
        return [
            *remarks("auth_token", tokens.changing, self.auth_token_file),
            *remarks("read_token", tokens.reading, self.read_token_file),
        ]

    def token_files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.auth_token_file, self.read_token_file) if path is not None)

    def authenticates(self) -> bool:
        """Whether clients have to show a token or a certificate."""
        tokens = (self.auth_token, self.auth_token_file)
        return self.tls_client_ca is not None or any(token is not None for token in tokens)

    def hosts(self) -> frozenset[str] | None:
        """Names that a request's Host header may have; None is any. Where clients authenticate, any name is safe: a web
        page that makes a browser call us can show neither a token nor a certificate."""
        hosts = self.allowed_hosts
        if hosts is None:
            return None if self.authenticates() else frozenset({*LOOPBACK_NAMES, self.host.lower()})
        return None if ANY_HOST in hosts else frozenset({*LOOPBACK_NAMES, self.host.lower(), *hosts})

    def policy(self) -> Policy:
        return replace(super().policy(), open_to_others=self.authenticates() or not _is_loopback(self.host))

    def changing_subjects(self) -> frozenset[str] | None:
        """Subjects of client certificates that may change things; None is all."""
        return None if self.tls_changing_subjects is None else frozenset(self.tls_changing_subjects)

    def insecure(self) -> tuple[str, ...]:
        """Settings, by name, that let everybody in who reaches the address."""
        open_ = self.insecure_no_auth and not self.authenticates() and not _is_loopback(self.host)
        return ("insecure_no_auth",) if open_ else ()

    def tls_files(self) -> tuple[Path, ...]:
        files = (self.tls_cert, self.tls_key, self.tls_client_ca, self.tls_client_crl)
        return tuple(path for path in files if path is not None)

    def tls(self) -> ServerContext:
        """A context of the files as they are now. `tls_cert` and `tls_key` must be set."""
        assert self.tls_cert is not None
        context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A key with a pass phrase would otherwise ask on the terminal and hang a service.
        context.load_cert_chain(self.tls_cert, self.tls_key, password=lambda: b"")
        if self.tls_client_ca is not None:
            context.load_verify_locations(self.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        if self.tls_client_crl is not None:
            context.load_verify_locations(self.tls_client_crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
            context.lists_end = _end_of(self.tls_client_crl)
        return context

    def exposed(self) -> str | None:
        """Returns what an operator should know about the address, or None."""
        if _is_loopback(self.host):
            return None
        lacking = [
            word
            for word, present in (
                ("a token or client certificates (insecure_no_auth)", self.authenticates()),
                ("TLS", self.tls_cert is not None),
            )
            if not present
        ]
        if not lacking:
            return None
        return (
            f"listening on {self.host}, which is not loopback, without {' and '.join(lacking)}: "
            "connector configurations carry cluster passwords"
        )


def _end_of(lists: Path) -> float:
    """When the first of the revocation lists of a file ends, in Unix seconds. Raises ValueError."""
    from cryptography import x509

    mark = b"-----BEGIN X509 CRL-----"
    read = [x509.load_pem_x509_crl(mark + pem) for pem in lists.read_bytes().split(mark)[1:]]
    if not read:
        raise ValueError(f"{lists} holds no revocation list as PEM text")
    ends = [crl.next_update_utc for crl in read]
    return min((end.timestamp() for end in ends if end is not None), default=math.inf)


def _subject(text: str) -> str:
    """The subject of a certificate as RFC 4514 writes it, however it is given."""
    from cryptography import x509

    try:
        name = x509.Name.from_rfc4514_string(text).rfc4514_string()
    except ValueError:
        name = ""
    if not name:
        raise ValueError(f"{text!r} is no subject of a certificate like CN=ops,O=Example")
    return name


def misspelt(environment: Iterable[str]) -> list[str]:
    """A sentence for each variable that is nearly a setting. What has none near it is somebody else's."""
    known = [ENV_PREFIX + name.upper() for name in (*Settings.model_fields, *_OTHERS)]
    sentences = []
    for name in sorted(environment):
        if name.startswith(ENV_PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
            sentences += [f"{name} is no setting: did you mean {text}?" for text in near]
    return sentences


def load_settings(**flags: Any) -> Settings:
    """The settings of the environment and of flags; a flag that is not None wins. Raises SettingsRejected with every
    error."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        listed = "; ".join(
            ".".join(str(part) for part in item["loc"]) + (": " if item["loc"] else "") + _plain(item["msg"])
            for item in error.errors(include_input=False, include_url=False)
        )
        raise SettingsRejected(f"bad settings: {listed}") from None
    except Exception as error:  # pydantic-settings: a list in the environment that is not JSON
        raise SettingsRejected(f"bad settings: {error}") from None


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
