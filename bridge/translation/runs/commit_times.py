"""Encodes how long the records of one commit took, which stands behind a run's value: how old they were when they were
fetched, and when they were about to be committed (docs/offset-runs.md).

    times    count, then of the ages and of the latencies: sum, least, greatest; unsigned base-128 varints, lowest bits
             first; ms

It says nothing of offsets: a reader that can't decode it goes without.
"""

from __future__ import annotations

from bridge.model.copy_samples import Latencies
from bridge.model.state_records.fields import SchemaError

_NUMBERS = 7
_MOST = 2**62
_LONGEST = 9 * _NUMBERS
"""Bytes: longer numbers are none that records can have, and take long to read."""


def encode_times(age: Latencies, latency: Latencies) -> bytes:
    """Returns b"" where no record has a timestamp."""
    if not age.records:
        return b""
    encoded = bytearray()
    for number in (age.records, *age[1:4], *latency[1:4]):
        number = min(number, _MOST)
        while number > 0x7F:
            encoded.append(number & 0x7F | 0x80)
            number >>= 7
        encoded.append(number)
    return bytes(encoded)


def decode_times(times: bytes) -> tuple[Latencies, Latencies] | None:
    """Returns ages and latencies, of which the last one is not known and 0; None where there are none, or they are not
    what records can have."""
    if len(times) > _LONGEST:
        return None
    try:
        count, *rest = _numbers(times)
    except (SchemaError, ValueError):
        return None
    if len(rest) != _NUMBERS - 1 or not 0 < count <= _MOST:
        return None
    latencies = Latencies(count, *rest[:3]), Latencies(count, *rest[3:])
    return latencies if all(_sound(each) for each in latencies) else None


def _sound(latencies: Latencies) -> bool:
    least, most = latencies.records * latencies.least, latencies.records * latencies.greatest
    return latencies.least <= latencies.greatest <= _MOST and min(_MOST, least) <= latencies.total <= min(
        _MOST, most
    )


def _numbers(data: bytes) -> list[int]:
    numbers: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
        else:
            shift += 7
    if shift:
        raise SchemaError("times that are cut short")
    return numbers
