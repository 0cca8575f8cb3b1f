"""Holds a validated configuration: every key with its value, and all errors at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bridge.errors import ConfigError, ConfigRejected
from bridge.protocol.messages import ConfigEntry, ConfigKey, ConfigValue, ValidateResponse
from bridge.protocol.operators import ConfigWarning, IgnoredSetting
from connectors.config.keys import Key, Unparsable, parse, undefined
from connectors.config.validators import invalid


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key with its value and errors. `value` is parsed (None: not given, or not to be parsed)."""

    key: Key
    value: object
    errors: tuple[str, ...] = ()
    visible: bool = True

    @property
    def text(self) -> str | None:
        """The value as Connect shows it; `[hidden]` for secrets."""
        value = self.value
        if value is None:
            return None
        if self.key.secret:
            return "[hidden]"
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(value) if isinstance(value, tuple) else str(value)

    def entry(self) -> ConfigEntry:
        value = ConfigValue(
            name=self.key.name,
            value=self.text,
            recommended_values=list(self.key.recommended),
            errors=list(self.errors),
            visible=self.visible,
        )
        return ConfigEntry(definition=describe(self.key), value=value)


def parse_value(key: Key, text: str | None) -> KeyValue:
    """Parses and checks the value of a key as the operator wrote it (None: not given)."""
    if text is None:
        if key.required:
            missing = f'Missing required configuration "{key.name}" which has no default value.'
            return KeyValue(key, None, (missing,))
        text = key.default_text
    if text is None:
        return KeyValue(key, None)
    try:
        value = parse(key.type, text)
    except Unparsable as error:
        return KeyValue(key, None, (invalid(key.name, "[hidden]" if key.secret else text, str(error)),))
    problem = key.validator.check(key.name, value) if key.validator else None
    return KeyValue(key, value, (problem,) if problem else ())


@dataclass(frozen=True, slots=True)
class ValidatedConfig:
    entries: tuple[KeyValue, ...]
    ignored: tuple[IgnoredSetting, ...] = ()
    """Settings that were given and do nothing; none that has an error."""

    @property
    def errors(self) -> tuple[ConfigError, ...]:
        return tuple(ConfigError(entry.key.name, text) for entry in self.entries for text in entry.errors)

    def raise_if_invalid(self) -> None:
        if errors := self.errors:
            raise ConfigRejected(errors)

    def value(self, name: str) -> object:
        return next(entry.value for entry in self.entries if entry.key.name == name)

    def good(self, name: str) -> bool:
        """Whether the key has a value and no error yet, so that rules across keys may use it."""
        return any(e.key.name == name and e.value is not None and not e.errors for e in self.entries)

    def text(self, name: str) -> str:
        return str(self.value(name))

    def number(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        return self.value(name) is True

    def items(self, name: str) -> tuple[str, ...] | None:
        value = self.value(name)
        return value if isinstance(value, tuple) else None

    def with_errors(self, errors: Iterable[ConfigError]) -> ValidatedConfig:
        """Returns the configuration with more errors; those of keys that are not defined come last."""
        entries = {entry.key.name: entry for entry in self.entries}
        for error in errors:
            entry = entries.get(error.key) or KeyValue(undefined(error.key), None)
            if error.message not in entry.errors:
                entries[error.key] = replace(entry, errors=(*entry.errors, error.message), visible=True)
        return ValidatedConfig(tuple(entries.values()), _unrefused(self.ignored, entries))

    def with_errors_instead(self, errors: Sequence[ConfigError]) -> ValidatedConfig:
        """Returns the configuration with these errors in place of all others of their keys."""
        keys = {error.key for error in errors}
        kept = (replace(each, errors=()) if each.key.name in keys else each for each in self.entries)
        return ValidatedConfig(tuple(kept), self.ignored).with_errors(errors)

    def with_ignored(self, ignored: Sequence[IgnoredSetting], unseen: Iterable[str]) -> ValidatedConfig:
        """Adds the keys that are ignored. `unseen`: keys whose values are shown as not visible, as far as Connect can
        say that they do nothing."""
        entries = {entry.key.name: entry for entry in self.entries}
        for key in unseen:
            entry = entries.get(key) or KeyValue(undefined(key), None)
            entries[key] = replace(entry, visible=bool(entry.errors))
        return ValidatedConfig(tuple(entries.values()), _unrefused(ignored, entries))

    def response(self, name: str, warnings: Sequence[ConfigWarning] = ()) -> ValidateResponse:
        """Returns Connect's `ConfigInfos`; `name` is the connector's class."""
        return ValidateResponse(
            name=name,
            error_count=len(self.errors),
            groups=list(dict.fromkeys(entry.key.group for entry in self.entries)),
            configs=[entry.entry() for entry in self.entries],
            ignored_settings=list(self.ignored),
            warnings=list(warnings),
        )


def _unrefused(
    ignored: Iterable[IgnoredSetting], entries: Mapping[str, KeyValue]
) -> tuple[IgnoredSetting, ...]:
    """Leaves out settings with an error: they are refused, not ignored."""
    return tuple(each for each in ignored if each.key not in entries or not entries[each.key].errors)


def describe(key: Key) -> ConfigKey:
    """Describes a key as Connect does."""
    return ConfigKey(
        name=key.name,
        type=key.type.value,
        required=key.required,
        default_value=key.default_text,
        importance=key.importance.value,
        documentation=key.documentation,
        group=key.group,
        order_in_group=key.order,
        width=key.width.value,
        display_name=key.display_name or key.name,
    )
