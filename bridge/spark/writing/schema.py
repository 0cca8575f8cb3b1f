"""Which columns the sink takes."""

from __future__ import annotations

from difflib import get_close_matches

from pyspark.sql.types import StructType

from bridge.spark.rejected import SourceRejected

HEADERS = "array<struct<key:string,value:binary>>"
COLUMNS: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": (HEADERS,),
}
"""With the types that each may have; nothing says more than Spark's own name of a type."""
LEFT_OUT = frozenset({"offset", "timestamp_type", "timestamptype", "leader_epoch"})
"""What sources say of a record, and only the target's broker decides: `timestampType` is that of Spark's own source."""


def verify_schema(schema: StructType, topic: str) -> None:
    """Verifies the columns. `topic`: that of the option, "" for none. Raises SourceRejected, which names each column
    that does not fit."""
    wrong = []
    for each in schema:
        kind = each.dataType.simpleString()
        if each.name.lower() in LEFT_OUT:
            continue
        if each.name.lower() not in COLUMNS:
            near = get_close_matches(each.name.lower(), COLUMNS, 1, 0.75)
            wrong.append(
                f"there is no column {each.name} ({kind})" + (f"; did you mean {near[0]}?" if near else "")
            )
        elif kind not in (kinds := COLUMNS[each.name.lower()]):
            wrong.append(f"column {each.name} has type {kind}, and must be {' or '.join(kinds)}")
    names = [name.lower() for name in schema.names]
    wrong += [
        f"column {name} is there {names.count(name)} times" for name in COLUMNS if names.count(name) > 1
    ]
    if "value" not in names:
        wrong.append("column value is missing (binary or string)")
    if "topic" not in names and not topic:
        wrong.append("column topic is missing (string): without it the option topic is required")
    if wrong:
        may = ", ".join(f"{name} {' or '.join(kinds)}" for name, kinds in COLUMNS.items())
        raise SourceRejected(f"the schema does not fit: {'; '.join(wrong)}; columns are {may}")
