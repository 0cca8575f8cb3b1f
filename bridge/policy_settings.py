"""Settings of the service that say what connector configurations may name."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from bridge.policy import Policy

Patterns = Annotated[tuple[str, ...], NoDecode]
_MODULE = re.compile(r"\*|[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


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
        return [item for each in value.split(",") if (item := each.strip())]

    @field_validator("allowed_spark_keys")
    @classmethod
    def _are_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if each != "*" and not each.startswith("spark."):
                raise ValueError(f"{each!r} is no spark.* key")
        return value

    @field_validator("allowed_python_modules")
    @classmethod
    def _are_modules(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if _MODULE.fullmatch(each) is None:
                raise ValueError(f"{each!r} is no module: give names like mycompany.mirror, or * for any")
        return value

    @field_validator("allowed_folders")
    @classmethod
    def _are_folders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not each.startswith("/"):
                raise ValueError(f"{each!r} is no folder: give its whole path, which begins with /")
        return value

    @field_validator("allowed_bootstrap")
    @classmethod
    def _are_servers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if each != "*" and re.fullmatch(r"[^\s/]+:[0-9*?]+", each) is None:
                raise ValueError(f"{each!r} is not of the form host:port; for any port give host:*")
        return tuple(each.lower() for each in value)

    @field_validator("allowed_token_endpoints")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if re.fullmatch(r"[^\s/@\[\]:]+(:[0-9*?]+)?", each) is None:
                raise ValueError(f"{each!r} is not of the form host or host:port")
        return tuple(each.lower() for each in value)

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
