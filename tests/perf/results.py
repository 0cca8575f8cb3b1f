"""Where benchmarks leave their figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(".local/bench")


def rows_of(name: str) -> list[dict[str, object]]:
    """Of what was measured last; none if nothing was."""
    file = FOLDER / f"{name}.json"
    return list(json.loads(file.read_text())["rows"]) if file.exists() else []


def write(
    name: str, *, ours: float, other: float, unit: str, better: str, rows: Sequence[Mapping[str, object]]
) -> None:
    """Writes NAME.json. `better` is `more` or `less`: which way the figures count; `ratio` above 1 is ours ahead."""
    ratio = ours / other if better == "more" else other / ours
    figures = {"name": name, "unit": unit, "better": better, "ours": ours, "other": other, "ratio": ratio}
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures | {"rows": list(rows)}, indent=2)
    (FOLDER / f"{name}.json").write_text(text + "\n")
    print(f"\n{name}: ours {ours:,.1f} {unit}, other {other:,.1f} {unit}, ratio {ratio:.2f}")
    for row in rows:
        print("  ", json.dumps(row))
