"""Settings of `mirror-bridge serve`: the environment (`MIRROR_BRIDGE_…`), flags over it, every error in one
line."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from bridge.policy_settings import PolicySettings

ENV_PREFIX = "MIRROR_BRIDGE_"


class SettingsRejected(Exception):
    """Settings with at least one error; the text is one line and carries no value that may be secret."""


class Settings(PolicySettings):
    """What `serve` can be told. Everything about clusters is in the connector JSON, not here."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(8900, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    auth_token: SecretStr | None = Field(None, description="Bearer token that /v1 asks for.")
    auth_token_file: Path | None = Field(None, description="File with the bearer token (first line).")
    tls_cert: Path | None = Field(None, description="PEM certificate chain; HTTPS when given with the key.")
    tls_key: Path | None = Field(None, description="PEM private key.")
    tls_client_ca: Path | None = Field(
        None, description="PEM file of the CA that client certificates must have."
    )
    open_paths: tuple[str, ...] = Field(
        ("/health", "/metrics"), description="Paths, with all below them, that need no token."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level to log.")
    log_format: Literal["text", "json"] = Field("text", description="One line each: text, or a JSON object.")
    pool_size: int = Field(2, ge=1, le=64, description="Threads for what blocks (checking configurations).")
    pool_queue: int = Field(32, ge=0, le=10_000, description="Requests that may wait for a thread; then 503.")
    max_body_bytes: int = Field(1 << 20, ge=1024, le=64 << 20, description="Larger request bodies get 413.")
    oauth_http_hosts: str = Field(
        "", description="Hosts whose token endpoints may be asked over http, with commas between them."
    )
    shutdown_grace_seconds: float = Field(10.0, gt=0, le=600, description="Time to end in after SIGTERM.")

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("auth_token")
    @classmethod
    def _token_is_usable(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _check_token(value.get_secret_value())
        return value

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        problems: list[str] = []
        if self.auth_token is not None and self.auth_token_file is not None:
            problems.append("give auth_token or auth_token_file, not both")
        if (self.tls_cert is None) != (self.tls_key is None):
            problems.append("tls_cert and tls_key are needed together")
        if self.tls_client_ca is not None and self.tls_cert is None:
            problems.append("tls_client_ca needs tls_cert and tls_key")
        if self.auth_token_file is not None:
            try:
                _check_token(_first_line(self.auth_token_file))
            except OSError as error:
                problems.append(f"auth_token_file can't be read: {error.strerror}")
            except ValueError as error:
                problems.append(f"auth_token_file: {error}")
        if not problems and self.tls_cert is not None:
            try:
                self.ssl_context()
            except (OSError, ValueError) as error:
                problems.append(f"tls_cert, tls_key or tls_client_ca can't be used: {error}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def token(self) -> str | None:
        if self.auth_token is not None:
            return self.auth_token.get_secret_value()
        return _first_line(self.auth_token_file) if self.auth_token_file is not None else None

    def ssl_context(self) -> ssl.SSLContext | None:
        if self.tls_cert is None or self.tls_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A key with a pass phrase would otherwise ask on the terminal and hang a service.
        context.load_cert_chain(self.tls_cert, self.tls_key, password=lambda: b"")
        if self.tls_client_ca is not None:
            context.load_verify_locations(self.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def exposed(self) -> str | None:
        """What an operator should know about the address, or None."""
        if _is_loopback(self.host):
            return None
        lacking = [
            word
            for word, there in (("a token", self.token() is not None), ("TLS", self.tls_cert is not None))
            if not there
        ]
        if not lacking:
            return None
        return (
            f"listening on {self.host}, which is not loopback, without {' and '.join(lacking)}: "
            "connector configurations carry cluster passwords"
        )


def load_settings(**flags: Any) -> Settings:
    """The environment, and over it the flags that are not None; raises SettingsRejected with every error."""
    try:
        return Settings(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        told = "; ".join(
            ".".join(str(part) for part in item["loc"]) + (": " if item["loc"] else "") + _plain(item["msg"])
            for item in error.errors(include_input=False, include_url=False)
        )
        raise SettingsRejected(f"bad settings: {told}") from None
    except Exception as error:  # pydantic-settings: a list in the environment that is not JSON
        raise SettingsRejected(f"bad settings: {error}") from None


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ")


def _first_line(path: Path) -> str:
    lines = path.read_text("utf-8").splitlines()
    return lines[0].strip() if lines else ""


def _check_token(token: str) -> None:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token must be printable ASCII without spaces, at least one character")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
