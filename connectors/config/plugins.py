"""Loads filters and policies by name: stock's class names select ours, `python:module.Class` loads a user's own.

A user's class is made without arguments, and `configure(props)` is called when it has one. What goes
wrong there is an error of the key that named the class, never an exception.

Checks functions that get tokens, `sasl.login.callback.handler.class=python:module.function`, by loading them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Final, Generic, TypeVar, cast

from bridge.errors import ConfigError, ConfigRejected
from bridge.mm2.filters import (
    CONFIG_PROPERTIES_EXCLUDE,
    TOPICS,
    TOPICS_REGEX,
    USE_DEFAULTS_FROM,
    ConfigPropertyFilter,
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    GroupFilter,
    TopicFilter,
)
from bridge.mm2.replication_policy import (
    ALIASES,
    SOURCE_ALIAS,
    TOPIC_MAP,
    TOPIC_MAP_FILE,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    LegacyReplicationPolicy,
    ReplicationPolicy,
)
from connectors.config.client_keys import looks_secret
from connectors.config.configdef import ValidatedConfig, invalid
from connectors.config.mirror_options import SEPARATOR, STOCK

T = TypeVar("T")
Props = Mapping[str, str | None]

_PYTHON = "python:"
LOGIN_CALLBACKS: Final = "sasl.login.callback.handler.class"


@dataclass(frozen=True, slots=True)
class Slot(Generic[T]):
    """A kind of plugin: the key that names it, our own classes under stock's simple names, the methods it must have."""

    key: str
    ours: Mapping[str, Callable[[], T]]
    methods: tuple[str, ...]
    hint: str
    reads: tuple[str, ...]
    """Keys that it reads when it is configured."""

    @property
    def stock_names(self) -> list[str]:
        return [STOCK + name for name in self.ours]


TOPIC_FILTER: Slot[TopicFilter] = Slot(
    "topic.filter.class",
    {"DefaultTopicFilter": DefaultTopicFilter},
    ("should_replicate_topic",),
    "give it should_replicate_topic(topic) -> bool",
    (TOPICS, TOPICS_REGEX, "topics.exclude"),
)


GROUP_FILTER: Slot[GroupFilter] = Slot(
    "group.filter.class",
    {"DefaultGroupFilter": DefaultGroupFilter},
    ("should_replicate_group",),
    "give it should_replicate_group(group) -> bool",
    ("groups", "group", "groups.exclude"),
)


CONFIG_PROPERTY_FILTER: Slot[ConfigPropertyFilter] = Slot(
    "config.property.filter.class",
    {"DefaultConfigPropertyFilter": DefaultConfigPropertyFilter},
    ("should_replicate_config_property", "should_replicate_source_default"),
    "give it should_replicate_config_property(name) -> bool and should_replicate_source_default(name) -> bool",
    (CONFIG_PROPERTIES_EXCLUDE, USE_DEFAULTS_FROM),
)


REPLICATION_POLICY: Slot[ReplicationPolicy] = Slot(
    "replication.policy.class",
    {
        "DefaultReplicationPolicy": DefaultReplicationPolicy,
        "IdentityReplicationPolicy": IdentityReplicationPolicy,
        "LegacyReplicationPolicy": LegacyReplicationPolicy,
    },
    (
        *("format_remote_topic", "topic_source", "upstream_topic", "original_topic", "is_heartbeats_topic"),
        *("is_checkpoints_topic", "is_mm2_internal_topic", "is_internal_topic", "checkpoints_topic"),
        *("offset_syncs_topic", "heartbeats_topic", "offset_runs_topic", "layout_topic", "gaps_topic"),
        "readiness_topic",
    ),
    "subclass bridge.mm2.replication_policy.ReplicationPolicy",
    (SEPARATOR, ALIASES, SOURCE_ALIAS, TOPIC_MAP, TOPIC_MAP_FILE),
)


@dataclass(slots=True)
class Plugins:
    """Loads the plugins of one configuration, and collects their errors in `errors`."""

    given: Mapping[str, str]
    config: ValidatedConfig
    errors: list[ConfigError] = field(default_factory=list)

    def load(self, slot: Slot[T]) -> T | None:
        """Loads a plugin; None together with an error. It is not loaded where its key has an error already, and not
        configured where one has that the plugin reads: one cause, one error."""
        wrong = {error.key for error in self.config.errors}
        if slot.key in wrong:
            return None
        props = self._as_plugins_see_it() if wrong.isdisjoint(slot.reads) else None
        try:
            plugin = load(slot, self.config.text(slot.key), props)
        except ConfigRejected as rejected:
            self.errors += [
                ConfigError(error.key, _scrubbed(error.message, self.given)) for error in rejected.errors
            ]
            return None
        if isinstance(plugin, ConfigError):
            self.errors.append(plugin)
            return None
        return plugin

    def _as_plugins_see_it(self) -> Props:
        """Returns the configuration as plugins get it: filters know `groups` only, and values as ConfigDef reads
        them. The names that a sink connector subscribes to are a pattern for them."""
        seen = dict(self.given)
        if "group" in seen:
            seen["groups"] = seen["group"]
        if TOPICS_REGEX in self._defined:
            seen[TOPICS_REGEX] = seen.get(TOPICS_REGEX) or "|".join(
                map(_quoted, self.config.items(TOPICS) or ())
            )
        else:
            seen.pop(TOPICS_REGEX, None)
        return seen

    @property
    def _defined(self) -> frozenset[str]:
        return frozenset(entry.key.name for entry in self.config.entries)


def _quoted(name: str) -> str:
    """Returns a pattern that matches this name of a topic only."""
    return name.replace(".", r"\.")


def sound(plugin: T | None) -> T:
    """Returns a plugin of a configuration that has no errors."""
    if plugin is None:
        raise AssertionError("a plugin is missing only together with an error")
    return plugin


def load(slot: Slot[T], name: str, props: Props | None) -> T | ConfigError:
    """Returns the plugin of that name, configured with `props` (None: not at all); or the error of its key. Raises
    ConfigRejected for errors that the plugin finds in other keys."""
    try:
        plugin = _make(slot, name)
        configure = getattr(plugin, "configure", None)
        if configure is not None and props is not None:
            _call("its configure(props)", configure, props)
    except _Unusable as problem:
        return ConfigError(slot.key, invalid(slot.key, name, _scrubbed(str(problem), props or {})))
    return plugin


def load_function(
    key: str,
    name: str,
    props: Props,
    try_out: Callable[[Callable[..., object]], str | None],
    trying: str,
) -> Callable[..., object] | ConfigError:
    """Returns the function of that name; or the error of its key, which may be what `try_out` returns or raises;
    `trying` begins the sentence then."""
    right = f"{_PYTHON}module.function"
    try:
        module, function = _named(name, right, right)
        loaded = getattr(module, function, None)
        if not callable(loaded):
            raise _Unusable(f"the module {module.__name__} has no function {function}")
        if failure := _call(trying, try_out, loaded):
            raise _Unusable(str(failure))
    except _Unusable as problem:
        return ConfigError(key, invalid(key, name, _scrubbed(str(problem), props)))
    return cast(Callable[..., object], loaded)


class _Unusable(Exception):
    """Raised for a plugin that can't be used; the text says why."""


def _make(slot: Slot[T], name: str) -> T:
    ours = slot.ours.get(name.removeprefix(STOCK))
    if ours is not None:
        return ours()
    right = f"one of {', '.join(slot.stock_names)}, or python:module.Class for your own"
    module, class_name = _named(name, "python:module.Class", right)
    made = getattr(module, class_name, None)
    if not isinstance(made, type):
        raise _Unusable(f"the module {module.__name__} has no class {class_name}")
    plugin = _call(f"{class_name}()", made)
    missing = [method for method in slot.methods if not callable(getattr(plugin, method, None))]
    if missing:
        raise _Unusable(f"{class_name} has no {', '.join(missing)}; {slot.hint}")
    return cast(T, plugin)


def _named(name: str, form: str, right: str) -> tuple[ModuleType, str]:
    """Returns the module that a name begins with, and the name inside it."""
    if not name.startswith(_PYTHON):
        raise _Unusable(f"Java classes can't be loaded here; use {right}")
    module, _, attribute = name.removeprefix(_PYTHON).rpartition(".")
    if not module or not attribute.isidentifier():
        raise _Unusable(f"not of the form {form}; use {right}")
    return cast(ModuleType, _call(f"the module {module}", importlib.import_module, module)), attribute


def _call(what: str, function: Callable[..., object], *arguments: object) -> object:
    try:
        return function(*arguments)
    except ConfigRejected:
        raise
    except Exception as error:
        # Foreign code may raise whatever it likes; the operator has to correct it, so its text is passed on.
        raise _Unusable(f"{what} failed with {type(error).__name__}: {error}") from error


def _scrubbed(message: str, props: Props) -> str:
    """Hides secrets in a message: foreign code sees the whole configuration, and its messages may quote it."""
    for key, value in props.items():
        if value and looks_secret(key):
            message = message.replace(value, "[hidden]")
    return message


def token_functions(props: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the functions, with `python:`, by the keys of clients that name them."""
    return {
        key: value
        for key, value in props.items()
        if key.endswith(f".{LOGIN_CALLBACKS}") and value.startswith(_PYTHON)
    }


def token_function_errors(props: Mapping[str, str], config: ValidatedConfig) -> list[ConfigError]:
    """Returns the errors of functions that can't be loaded or called. None is called: it may log in somewhere. What has
    an error already is not loaded."""
    wrong = {error.key for error in config.errors}
    results = [
        load_function(key, name, props, _takes_two, "looked at, it")
        for key, name in token_functions(props).items()
        if key not in wrong
    ]
    return [result for result in results if isinstance(result, ConfigError)]


def _takes_two(function: Callable[..., object]) -> str | None:
    if inspect.iscoroutinefunction(function):
        return "it must be a plain function: what it returns is not awaited"
    try:
        inspect.signature(function).bind({}, {})
    except TypeError:
        return "it must take two arguments: the client's properties, and the options of its login module"
    except ValueError:
        return None  # it tells nothing of its arguments
    return None
