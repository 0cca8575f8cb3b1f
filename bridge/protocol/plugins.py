"""Connectors' keys and their values, in Connect's own vocabulary (ConfigInfos of Connect's REST API). Part of the
contract; see messages."""

from __future__ import annotations

from bridge.protocol.base import Message
from bridge.protocol.operators import ConfigWarning, IgnoredSetting


class ConfigKey(Message):
    """A configuration key as Connect describes one (`ConfigKeyInfo`)."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str] = []


class ConfigValue(Message):
    """The value of a key and what is wrong with it (`ConfigValueInfo`). Values of PASSWORD keys are `[hidden]`."""

    name: str
    value: str | None
    recommended_values: list[str] = []
    errors: list[str] = []
    visible: bool = True


class ConfigEntry(Message):
    definition: ConfigKey
    value: ConfigValue


class PluginInfo(Message):
    kind: str
    connector_class: str
    version: str
    config: list[ConfigKey]


class Plugins(Message):
    version: str
    protocol: int
    plugins: list[PluginInfo]


class ValidateRequest(Message):
    """`connect_group_id`: the `group.id` of the worker, absent where the shim can't tell."""

    config: dict[str, str | None]
    connect_group_id: str | None = None


class ValidateResponse(Message):
    """Connect's `ConfigInfos`: every key with its value; `error_count` over all of them. `ignored_settings`: those
    without effect, for which Connect has no field; their values are not `visible`. `warnings`: problems that are no
    errors."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigEntry]
    ignored_settings: list[IgnoredSetting] = []
    warnings: list[ConfigWarning] = []
