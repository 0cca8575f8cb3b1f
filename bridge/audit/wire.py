"""Findings as JSON, between executors and the driver."""

from __future__ import annotations

import json
from typing import Any

from bridge.audit.differences import AuditWindow, Difference, DifferenceKind, Findings

_COUNTS = ("source_records", "target_records", "source_digest", "target_digest", "same", "unknown")


def packed(findings: Findings) -> str:
    windows = {
        number: [*(getattr(each, name) for name in _COUNTS), each.found]
        for number, each in findings.windows.items()
    }
    return json.dumps([windows, findings.differences, findings.not_compared, findings.left_out])


def unpacked(text: str) -> Findings:
    windows, differences, not_compared, left_out = json.loads(text)
    return Findings(
        {int(number): AuditWindow(*row) for number, row in windows.items()},
        [_difference(row) for row in differences],
        not_compared,
        left_out,
    )


def _difference(row: list[Any]) -> Difference:
    return Difference(DifferenceKind(row[0]), *row[1:])
