"""Runs the demo from start to end. When it can't go on, it prints one line that says where the logs are."""

from __future__ import annotations

import contextlib
import fcntl
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from bridge.demo.answers import connector_errors
from bridge.demo.logs import DemoFailed
from bridge.demo.report import closing, console, table, wrong_rows
from bridge.demo.scene import play
from bridge.local import LocalStack
from bridge.local.service import check_sources

PASSED, FAILED, INTERRUPTED = 0, 1, 130
LOG = "demo.log"


def run_demo(directory: Path, *, records: int, keep: bool) -> int:
    """Runs the demo. The exit status is 0 only if nothing was re-read or skipped and every first record was right."""
    shown = console()
    directory = directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(directory):
            return _run(directory, records, keep, shown)
    except KeyboardInterrupt:
        shown.print("Stopped. Everything that was started has ended.")
        return INTERRUPTED
    except Exception as error:
        return _show_error(error, directory, shown)


def _run(directory: Path, records: int, keep: bool, shown: Console) -> int:
    started = time.monotonic()
    check_sources()
    with LocalStack(directory) as stack:
        played = play(stack, records, started, shown)
        path = played.report.write(directory)
        shown.print(table(played.report))
        if not played.report.passed:
            errors = connector_errors(stack.service().url, played.connector)
            for line in [*wrong_rows(played.report, played.verdicts), *errors]:
                shown.print(line, markup=False, soft_wrap=True)
        shown.print(closing(played.report, played.records))
        shown.print(f"Written to {path}; logs are beside it.")
        if keep:
            _keep(stack, shown)
    return PASSED if played.report.passed else FAILED


def _keep(stack: LocalStack, shown: Console) -> None:
    """Prints the addresses, and leaves everything running until Ctrl-C or until a process dies."""
    addresses = stack.service().url, stack.worker().url, stack.source.bootstrap, stack.target.bootstrap
    for line in what_runs(*addresses):
        shown.print(line, soft_wrap=True, markup=False)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(0.5)
            for process in stack.watched:
                if process.died():
                    raise DemoFailed(process.obituary())
    shown.print("Stopping.")


def what_runs(service: str, worker: str, source: str, target: str) -> list[str]:
    """What the demo leaves running, and what to look at first. Broker A was killed in its last step."""
    rows = (
        ("service health", f"{service}/health"),
        ("groups", f"{service}/v1/groups"),
        ("why, of one group", f"{service}/v1/groups/audit/explain"),
        ("Connect REST", f"{worker}/connectors?expand=status"),
        ("broker B", target),
    )
    return [
        "\nAll of it goes on running until Ctrl-C, without broker A:",
        *(f"  {what:<18} {where}" for what, where in rows),
        f"  {'broker A':<18} {source} was killed",
        "\nIn another terminal:",
        f"  export MIRROR_BRIDGE_URL={service}",
        "  mirror-bridge readiness",
        "  mirror-bridge failover --all --flow A-to-B --dry-run                  # what it says with A gone",
        "  mirror-bridge failover --all --flow A-to-B --accept-as-of --dry-run   # as it was before",
    ]


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Locks the directory: a second demo in it would delete the data of the first one's brokers."""
    with (directory / "demo.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DemoFailed(
                f"another demo runs in {directory}: stop it, or choose another --directory"
            ) from error
        yield


def _show_error(error: Exception, directory: Path, shown: Console) -> int:
    """Prints the first line of the error, and writes all of it to the log."""
    first = (str(error).splitlines() or [""])[0] or type(error).__name__
    where = ""
    with contextlib.suppress(OSError):
        (directory / LOG).write_text("".join(traceback.format_exception(error)), "utf-8")
        where = f" (the whole error is in {directory / LOG}, logs of the processes are beside it)"
    shown.print(f"mirror-bridge demo: {first}{where}", style="red", markup=False, soft_wrap=True)
    return FAILED
