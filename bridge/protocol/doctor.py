"""Answer of /v1/connectors/{name}/doctor: what is wrong with a connector, and what to do."""

from __future__ import annotations

from bridge.protocol.base import Message


class DoctorFinding(Message):
    """One thing that doctor has looked at. `severity`: `problem`, `warning`, `not_checked` (it could not be), `skipped`
    (not requested) or `ok`; `remedy`: what to do, "" for nothing."""

    check: str
    severity: str
    found: str
    remedy: str = ""


class DoctorReport(Message):
    """GET /v1/connectors/{name}/doctor: at least one finding of each check."""

    name: str
    findings: list[DoctorFinding]
