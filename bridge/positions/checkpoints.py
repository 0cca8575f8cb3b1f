"""The positions of a Spark query, from its checkpoint: of Spark's own Kafka source, and of `mirror-records`.

    checkpoint/
      commits/41                what is in it does not matter: micro-batch 41 is done
      offsets/41, offsets/42    v1, a line of JSON about the query, and a line for each of its sources, "-" for none
      sources/0/0               where Spark's own source began

A query goes on behind the last micro-batch that it has committed. One that was planned and not committed (42) is read
again, wherever that is. The files of OffsetSeqLog, CommitLog and HDFSMetadataLog (Spark 3 and 4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from bridge.model.values import Judgement, TopicPartition
from bridge.positions.tables import sound_rows
from bridge.positions.translator import VERDICTS, PositionColumns, TranslatedPositions

_NAMES = ["source", "topic", "partition", "offset"]
_KINDS = (pa.int32(), pa.string(), pa.int32(), pa.int64())
_VERSION = "v1"
_NONE = "-"
_START = "(start)"
"""Where a stream of `mirror-records` begins (bridge.spark.offsets)."""


class CheckpointRejected(ValueError):
    """A checkpoint that can't be read; the text says which file, and why."""


@dataclass(frozen=True)
class QueryPositions:
    """Where a query goes on. `sources`: the offset of each partition, for each source that reads topics, by the number
    of the source. `batch`: the last micro-batch that is committed, -1 for none. `planned`: whether one was begun then.
    `topic_ids`: which `mirror-records` keeps beside its offsets."""

    sources: Mapping[int, Mapping[TopicPartition, int]]
    batch: int
    planned: bool
    topic_ids: Mapping[str, str]


class _SourcePositions(NamedTuple):
    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


def read_checkpoint(location: str) -> QueryPositions:
    """Reads a checkpoint at a path or a URI (file, hdfs, s3, gs, as far as pyarrow has them). Raises
    CheckpointRejected."""
    try:
        system, path = FileSystem.from_uri(location) if "://" in location else (None, location)
        files = _Files(system or FileSystem.from_uri("file:///")[0], path)
        return _read(files)
    except (OSError, ValueError) as error:
        if isinstance(error, CheckpointRejected):
            raise
        raise CheckpointRejected(f"can't read {location}: {str(error).splitlines()[0]}") from None


def checkpoint_table(query: QueryPositions) -> tuple[pa.Table, PositionColumns]:
    """Returns the positions with the number of their source."""
    rows = [
        (number, *tp, offset) for number, source in query.sources.items() for tp, offset in source.items()
    ]
    columns = list(zip(*sorted(rows), strict=True)) or [()] * 4
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True)], names=_NAMES
    )
    return table, replace(sound_rows(table).positions, topic_ids=query.topic_ids)


def starting_offsets(table: pa.Table, translated: TranslatedPositions) -> dict[int, str | None]:
    """Returns, for each source of a query, the value of startingOffsets with which it goes on from the target; None
    where that is not known of all its partitions, or records that it has not read are missing there."""
    verdicts, offsets = translated.answers.verdict.tolist(), translated.answers.offset.tolist()
    pending = VERDICTS.index(Judgement.PENDING)
    found: dict[int, dict[str, dict[str, int]] | None] = {}
    rows = zip(
        table.column("source").to_pylist(),
        table.column("partition").to_pylist(),
        translated.target.tolist(),
        verdicts,
        offsets,
        strict=True,
    )
    for source, partition, target, verdict, offset in rows:
        known = found.setdefault(source, {})
        if target < 0 or verdict == pending or offset < 0:
            found[source] = None
        elif known is not None:
            known.setdefault(translated.target_topics[target], {})[str(partition)] = offset
    return {source: None if known is None else json.dumps(known) for source, known in found.items()}


class _Files:
    def __init__(self, system: FileSystem, path: str) -> None:
        self._system, self.path = system, path.rstrip("/")

    def numbers(self, folder: str) -> list[int]:
        """Returns the numbers of the micro-batches that have a file in a folder of the checkpoint."""
        listed: list[FileInfo] = self._system.get_file_info(
            FileSelector(f"{self.path}/{folder}", allow_not_found=True)
        )
        return sorted(int(file.base_name) for file in listed if file.base_name.isdecimal())

    def lines(self, name: str) -> list[str]:
        with self._system.open_input_stream(f"{self.path}/{name}") as file:
            return str(file.read().decode()).splitlines()

    def has(self, name: str) -> bool:
        return bool(self._system.get_file_info(f"{self.path}/{name}").type is FileType.File)


def _read(files: _Files) -> QueryPositions:
    offsets, commits = files.numbers("offsets"), files.numbers("commits")
    if not offsets:
        raise CheckpointRejected(f"{files.path} is no checkpoint of a Spark query: offsets has no file")
    if not commits:
        return _query(files, _beginnings(files, offsets[0]), -1, planned=True)
    batch = commits[-1]
    if batch not in offsets:
        raise CheckpointRejected(
            f"{files.path}: micro-batch {batch} is committed, and offsets/{batch} is missing"
        )
    sources = {
        number: _positions(text, f"offsets/{batch}") for number, text in _sources(files, batch).items()
    }
    return _query(files, sources, batch, planned=offsets[-1] > batch)


def _beginnings(files: _Files, batch: int) -> Mapping[int, _SourcePositions | None]:
    """Returns where the sources of a query began that has committed nothing."""
    found: dict[int, _SourcePositions | None] = {}
    for number, text in _sources(files, batch).items():
        parsed = _json(text)
        if isinstance(parsed, dict) and isinstance(parsed.get(_START), dict):
            found[number] = _positions(json.dumps(parsed[_START]), f"offsets/{batch}")
        elif files.has(f"sources/{number}/0"):
            lines = files.lines(f"sources/{number}/0")
            found[number] = _positions(lines[-1], f"sources/{number}/0")
    return found


def _query(
    files: _Files, sources: Mapping[int, _SourcePositions | None], batch: int, *, planned: bool
) -> QueryPositions:
    """Puts together what the sources say. Raises CheckpointRejected."""
    found = {number: positions for number, positions in sources.items() if positions is not None}
    if not found:
        raise CheckpointRejected(
            f"{files.path} has no offsets of topics: it reads neither Spark's own Kafka source nor mirror-records"
        )
    topic_ids: dict[str, str] = {}
    for number, positions in found.items():
        for topic, topic_id in positions.topic_ids.items():
            if topic_ids.setdefault(topic, topic_id) != topic_id:
                raise CheckpointRejected(
                    f"{files.path}: topic {topic} was deleted and made again, and source {number} has read another one "
                    "of them than a source before it: let the query read on before it fails over"
                )
    offsets = {number: positions.offsets for number, positions in found.items()}
    return QueryPositions(offsets, batch, planned, topic_ids)


def _sources(files: _Files, batch: int) -> dict[int, str]:
    """Returns the offset of each source that has one at the end of a micro-batch, by the source's number."""
    lines, name = files.lines(f"offsets/{batch}"), f"{files.path}/offsets/{batch}"
    version = lines[0].strip() if lines else ""
    if version != _VERSION:
        raise CheckpointRejected(f"{name} has version {version!r}, and {_VERSION} is what can be read")
    if len(lines) < 3:
        raise CheckpointRejected(f"{name} is not whole: it names no source")
    return {number: line for number, line in enumerate(lines[2:]) if line.strip() not in ("", _NONE)}


def _positions(text: str, name: str) -> _SourcePositions | None:
    """Returns the offsets of an offset of a source; None for one of another kind of source."""
    parsed = _json(text)
    if not isinstance(parsed, dict):
        return None
    positions: dict[TopicPartition, int] = {}
    topic_ids: dict[str, str] = {}
    for topic, entry in parsed.items():
        if topic == _START:
            continue
        partitions = entry.get("offsets", entry) if isinstance(entry, dict) else None
        if not isinstance(partitions, dict):
            return None
        if partitions is not entry:
            topic_ids[topic] = str(entry.get("id", ""))
        for partition, offset in partitions.items():
            if not partition.isdecimal() or type(offset) is not int:
                return None
            if offset < 0:
                raise CheckpointRejected(f"{name} has offset {offset} for {topic}-{partition}")
            positions[TopicPartition(topic, int(partition))] = offset
    return _SourcePositions(positions, topic_ids)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
