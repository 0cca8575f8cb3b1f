"""The long forms of tests that `make test` runs short: `make soak`.

    python -m tests.support.soak            all of them
    python -m tests.support.soak faults     those whose names hold one of the words

Each form is a run of pytest of its own; at the end stands what was run, how long, how many cases where a test counts
them (`record_property("ran", ...)`), and what failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests import ROOT

_HOURS = 6 * 3600
_NEW = {"MIRROR_BRIDGE_NEW_EXAMPLES": "1"}
"""Hypothesis makes other examples in each run; `make test` has the same ones each time (tests/conftest.py)."""


@dataclass(frozen=True)
class Form:
    name: str
    tests: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the environment: what makes the form long."""
    marked: bool = False
    """Only what is marked `soak` in these folders."""


@dataclass(frozen=True)
class Ran:
    form: Form
    passed: int
    skipped: int
    wrong: Sequence[str]
    """Tests that failed, or were in error; or how pytest itself ended."""
    seconds: float
    cases: Sequence[str] = ()
    """What tests say that they ran, a line each."""


def _form(name: str, tests: str, **settings: int) -> Form:
    """A form of tests/…; `settings`: variables without MIRROR_BRIDGE_."""
    return Form(
        name, f"tests/{tests}", {f"MIRROR_BRIDGE_{key}": f"{value}" for key, value in settings.items()}
    )


_TRANSLATION = "unit/translation"
_BYTES = "unit/kafka/test_hostile_bytes.py"
# Tests of evidence make a quarter of what the variable says, and those of failback a twentieth: they cost as much more.
FORMS = (
    _form("attack: inputs at their worst, for 5 s each", "contract/test_worst_inputs.py", ATTACK_SECONDS=5),
    _form("attack: clients that use up what there is", "unit/service/http"),
    _form("attack: names in configurations", "unit/connectors/config/test_allowed_names.py"),
    _form("4,000 histories a kind: bracketing", f"{_TRANSLATION}/records/test_bracketing.py", HISTORIES=4000),
    _form("4,000 histories a kind: evidence", f"{_TRANSLATION}/test_evidence.py", HISTORIES=16_000),
    _form("4,000 histories a kind: failback", f"{_TRANSLATION}/test_failback.py", HISTORIES=80_000),
    _form("1,000 drills: no false yes", "unit/service/test_no_false_yes.py", DRILLS=1000),
    _form("4,000 examples: outbox", "unit/service/state/test_outbox.py", EXAMPLES=4000),
    _form("10 minutes: fuzz of brokers' answers", f"{_BYTES}::test_answers_of_brokers", FUZZ_SECONDS=600),
    _form("10 minutes: fuzz of batches", f"{_BYTES}::test_batches", FUZZ_SECONDS=600),
    _form("10 minutes: fuzz of state topics", f"{_BYTES}::test_state_topics", FUZZ_SECONDS=600),
    _form("10 minutes: fuzz of HTTP", f"{_BYTES}::test_http", FUZZ_SECONDS=600),
    _form("20 times the examples: fuzz of the API", "contract/test_fuzz.py", FUZZ=20),
    _form(
        "3 minutes: faults at random",
        "integration/test_pipeline_faults.py::test_all_at_random",
        FAULT_SECONDS=180,
    ),
    _form(
        "600 cuts, 30 kills: admin calls",
        "integration/test_admin_faults.py",
        ADMIN_CUTS=600,
        ADMIN_KILLS=30,
    ),
    _form(
        "20,000 topics: what connectors remember",
        "unit/connectors/test_what_connectors_remember.py",
        TOPICS=20_000,
    ),
    _form("30 kills: the sink of Spark", "integration/test_spark_sink_kills.py", SINK_KILLS=30),
    _form("10 ends of logins: dedicated mode", "soak/test_dedicated_tokens.py", LOGIN_ENDS=10),
    _form("secrets: dedicated mode, spark-submit, Spark Connect", "soak/test_planted_elsewhere.py"),
    _form("rights taken from dedicated mode, and a take-over", "soak/test_rights_of_nodes.py"),
    _form("a copy by pyspark-client", "soak/test_pyspark_client.py"),
    _form("readiness asked ten times a second", "soak/test_readiness_moments.py", MOMENTS_SECONDS=30),
    _form("the same of several brokers", "soak/test_readiness_moments_of_brokers.py", MOMENTS_SECONDS=30),
    _form("the same of Connect", "soak/test_readiness_moments_of_connect.py", MOMENTS_SECONDS=30),
    _form("services an hour off", "soak/test_wrong_service_clocks.py"),
    Form("cases with Kafka that make test leaves out", "tests/e2e tests/integration", marked=True),
    _form("2 minutes: lines of an outage", "e2e/test_logs.py", OUTAGE_SECONDS=120),
)


def chosen(words: Sequence[str]) -> list[Form]:
    """Those whose names hold one of the words; all without words."""
    return [form for form in FORMS if not words or any(word in form.name for word in words)]


def command(form: Form, report: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        f"--timeout={_HOURS}",
        f"--junit-xml={report}",
        *(("-m", "soak") if form.marked else ()),
        *form.tests.split(),
    ]


def run(form: Form, report: Path) -> Ran:
    print(f"--- {form.name}", flush=True)
    began = time.monotonic()
    ended = subprocess.run(
        command(form, report), cwd=ROOT, env={**os.environ, **_NEW, **form.settings}, check=False
    )
    return ran(
        form, report.read_text("utf-8") if report.exists() else "", ended.returncode, time.monotonic() - began
    )


def ran(form: Form, report: str, status: int, seconds: float) -> Ran:
    """Judges a form by its report (JUnit's XML) and pytest's exit status."""
    cases = list(ElementTree.fromstring(report).iter("testcase")) if report else []
    wrong = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    names = [f"{case.get('classname')}::{case.get('name')}" for case in wrong]
    if status and not names:
        names = [f"pytest ended with exit status {status}"]
    told = [
        str(each.get("value"))
        for case in cases
        for each in case.iter("property")
        if each.get("name") == "ran"
    ]
    return Ran(form, len(cases) - len(wrong) - len(skipped), len(skipped), names, seconds, told)


def summary(runs: Sequence[Ran]) -> str:
    """Returns what was run, a line for each form."""
    lines = ["", "What was run:"]
    for each in runs:
        settings = " ".join(f"{key}={value}" for key, value in each.form.settings.items())
        counts = f"{each.passed} passed, {len(each.wrong)} failed, {each.skipped} skipped"
        lines.append(f"  {each.form.name:40} {counts:32} {each.seconds / 60:7.1f} min  {settings}".rstrip())
        lines += [f"    {line}" for line in each.cases]
        lines += [f"    FAILED {name}" for name in each.wrong]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    forms = chosen(words)
    if not forms:
        print(
            f"No form is named so; there are: {', '.join(form.name for form in chosen([]))}", file=sys.stderr
        )
        return 2
    runs: list[Ran] = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            for number, form in enumerate(forms):
                runs.append(run(form, Path(directory) / f"{number}.xml"))
        finally:
            print(summary(runs))
    return 1 if any(each.wrong for each in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
