"""Where benchmarks leave their figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(".local/bench")


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
