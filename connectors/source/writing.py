"""Reads the client properties of BridgeMirrorSourceConnector that its own producer honours, and checks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridge.errors import ConfigError
from bridge.mm2.filters import JAVA_WHITESPACE, split_list
from connectors.config.configdef import ValidatedConfig
from connectors.config.key_effects import OVERRIDE
from connectors.config.validators import invalid

_SERVERS = "target.cluster.bootstrap.servers"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEVELS = {"gzip": range(1, 10), "lz4": range(1, 18), "zstd": range(-131072, 23)}
_GZIP_DEFAULT = "-1"


def client_property(there: Mapping[str, str], name: str, *prefixes: str) -> tuple[str, str]:
    """The key that gives a client property, and its value, "" when not given; of the prefixes the last one wins, as
    `source.consumer.*` does over `consumer.*` (stock §1.1)."""
    found = (f"{prefixes[0]}{name}", "")
    for key in (f"{prefix}{name}" for prefix in prefixes):
        if key in there:
            found = key, there[key].strip(JAVA_WHITESPACE)
    return found


def written_with(there: Mapping[str, str], name: str) -> tuple[str, str]:
    """A property of what writes the copies. Stock writes them with Connect's producer, hence the override."""
    return client_property(there, name, "producer.", "target.producer.", OVERRIDE)


def compression_level(there: Mapping[str, str]) -> int | None:
    """Of the codec that is chosen; None for its default."""
    codec = written_with(there, "compression.type")[1]
    text = written_with(there, f"compression.{codec}.level")[1] if codec in _LEVELS else ""
    return int(text) if text else None


def writing_errors(there: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    key, value = written_with(there, "batch.size")
    if value and not (value.isascii() and value.isdigit() and int(value) < 1 << 31):
        yield ConfigError(key, invalid(key, value, "Not a number of type INT that is at least 0"))
    key, value = written_with(there, "compression.type")
    if value and value not in _CODECS:
        yield ConfigError(key, invalid(key, value, f"String must be one of: {', '.join(_CODECS)}"))
    for codec, levels in _LEVELS.items():
        key, value = written_with(there, f"compression.{codec}.level")
        if value and not _among(value, levels) and (codec, value) != ("gzip", _GZIP_DEFAULT):
            default = f", or {_GZIP_DEFAULT}" if codec == "gzip" else ""
            why = f"must be a number from {levels.start} to {levels.stop - 1}{default}"
            yield ConfigError(key, invalid(key, value, why))
    yield from _servers(there, config)


def _among(text: str, levels: range) -> bool:
    try:
        return int(text) in levels
    except ValueError:
        return False


def _servers(there: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """In stock the override alone says where copies go; topics and offset runs would be looked for elsewhere."""
    key = f"{OVERRIDE}bootstrap.servers"
    known = config.items(_SERVERS)
    if known and there.get(key) and set(split_list(there[key])) != set(known):
        why = f"copies go to the cluster of {_SERVERS}, {','.join(known)}; give its servers there only"
        yield ConfigError(key, invalid(key, there[key], why))
