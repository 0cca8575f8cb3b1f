"""Reads the client properties of BridgeMirrorSourceConnector that its own producer honours, and checks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridge.errors import ConfigError
from bridge.model.java_values import integer, split_list
from connectors.config.configdef import ValidatedConfig
from connectors.config.key_effects import OVERRIDE
from connectors.config.validators import invalid

_SERVERS = "target.cluster.bootstrap.servers"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEVELS = {"gzip": range(1, 10), "lz4": range(1, 18), "zstd": range(-131072, 23)}
_GZIP_DEFAULT = "-1"


def client_property(there: Mapping[str, str], name: str, *prefixes: str) -> tuple[str, str]:
    """Returns the key that sets a client property, and its value, "" when not given; of the prefixes the last one wins,
    as `source.consumer.*` does over `consumer.*` (stock §1.1)."""
    effective = (f"{prefixes[0]}{name}", "")
    for key in (f"{prefix}{name}" for prefix in prefixes):
        if key in there:
            effective = key, there[key]
    return effective


def written_with(there: Mapping[str, str], name: str) -> tuple[str, str]:
    """Returns the key and value of a property of the producer of copies. Stock writes them with Connect's producer,
    hence the override."""
    return client_property(there, name, "producer.", "target.producer.", OVERRIDE)


def compression_level(there: Mapping[str, str]) -> int | None:
    """Returns the compression level of the configured codec; None for its default."""
    codec = written_with(there, "compression.type")[1]
    text = written_with(there, f"compression.{codec}.level")[1] if codec in _LEVELS else ""
    return int(text) if text else None


def writing_errors(there: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Checks the properties that copies are written with."""
    key, value = written_with(there, "batch.size")
    size = integer(value or "0", 32)
    if size is None or size < 0:
        yield ConfigError(key, invalid(key, value, "Not a number of type INT that is at least 0"))
    key, value = written_with(there, "compression.type")
    if value and value not in _CODECS:
        yield ConfigError(key, invalid(key, value, f"String must be one of: {', '.join(_CODECS)}"))
    for codec, levels in _LEVELS.items():
        key, value = written_with(there, f"compression.{codec}.level")
        if value and integer(value) not in levels and (codec, value) != ("gzip", _GZIP_DEFAULT):
            default = f", or {_GZIP_DEFAULT}" if codec == "gzip" else ""
            why = f"must be a number from {levels.start} to {levels.stop - 1}{default}"
            yield ConfigError(key, invalid(key, value, why))
    yield from _servers(there, config)


def _servers(there: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    """Refuses an override of the bootstrap servers that names another cluster: with stock copies alone would go there,
    and topics and offset runs would not be found."""
    key = f"{OVERRIDE}bootstrap.servers"
    servers = config.items(_SERVERS)
    if servers and there.get(key) and set(split_list(there[key])) != set(servers):
        why = f"copies go to the cluster of {_SERVERS}, {','.join(servers)}; remove it: the servers stand there only"
        yield ConfigError(key, invalid(key, there[key], why))
