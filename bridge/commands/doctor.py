"""`mirror-bridge doctor`: what is wrong with a connector's configuration, its clusters and its machine."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bridge.commands.exit_status import BAD_SETTINGS, end, reported
from bridge.commands.options import read_connector
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, tls
from bridge.commands.show import Output, OutputOption, printable, show_json

if TYPE_CHECKING:
    from bridge.doctor.facts import Finding, Unknown
    from connectors.base import Kind

_TIMEOUT, _CLUSTER_TIMEOUT = 5.0, 120.0
"""Seconds for a response, and for one that has to wait for clusters."""
_WORDS = {
    "problem": "PROBLEM",
    "warning": "warning",
    "not_checked": "NOT CHECKED",
    "skipped": "skipped",
    "ok": "ok",
}


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(
            help="The connector's configuration: Java .properties, or the JSON that is PUT to Connect."
        ),
    ] = None,
    connector: Annotated[
        str | None, typer.Option(help="Name of a connector of the service, which then examines it.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            envvar="MIRROR_BRIDGE_URL",
            help=f"Address of the service [{URL}]; with --config, to compare clocks.",
        ),
    ] = None,
    connect_url: Annotated[
        str | None, typer.Option(help="REST API of the Connect worker, to see which cluster it writes to.")
    ] = None,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a connector's configuration, clusters, rights and machine, and say what to do about each finding.

    It changes nothing. Exit status 0: no problem; 1: problems; 2: usage; 3: none, but not all could be checked.
    """
    from bridge.doctor.facts import exit_status

    if (config is None) == (connector is None):
        end("give either --config FILE or --connector NAME", BAD_SETTINGS)
    worker = None if connect_url is None else _worker(connect_url)
    if config is not None:
        findings = _examine_file(config, url, worker)
    else:
        findings = _ask_service(
            str(connector),
            ServiceClient(url or URL, auth_token_file, failed=3, seconds=_CLUSTER_TIMEOUT),
            worker,
        )
    _show(findings, output)
    raise typer.Exit(exit_status(findings))


def _examine_file(path: Path, url: str | None, worker: str | Unknown | None) -> list[Finding]:
    """Findings for the configuration of a file, as this machine sees its clusters."""
    import asyncio

    from bridge.doctor.checks import examine
    from bridge.doctor.collecting import collect
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.service.checks.answer import scrubbed

    props = read_connector(path)
    kind = _kind(path, props)
    with reported():
        facts = asyncio.run(collect(kind, props.get("name", ""), props, StaticClientCheck()))
    if worker is not None:
        facts = replace(facts, worker_cluster_id=worker)
    if url is not None:
        facts = replace(facts, service_skew=_skew(url))
    return [
        replace(
            finding, found=scrubbed(kind, props, finding.found), remedy=scrubbed(kind, props, finding.remedy)
        )
        for finding in examine(facts)
    ]


def _ask_service(name: str, client: ServiceClient, worker: str | Unknown | None) -> list[Finding]:
    """Findings for a connector of the service, as the service sees its clusters."""
    from bridge.doctor.facts import Finding, Severity, Unknown, unknown
    from bridge.protocol.operators import DoctorReport

    query = {"worker_cluster_id": worker} if isinstance(worker, str) else None
    report = client.get(f"/v1/connectors/{quote(name, safe='')}/doctor", DoctorReport, query)
    findings = [
        Finding(finding.check, Severity(finding.severity), finding.found, finding.remedy)
        for finding in report.findings
    ]
    if not isinstance(worker, Unknown):
        return findings
    away = Finding("worker", *unknown("the worker's cluster", worker))
    return [
        away if (finding.check, finding.severity) == ("worker", Severity.SKIPPED) else finding
        for finding in findings
    ]


def _kind(path: Path, props: Mapping[str, str]) -> Kind:
    from connectors.registry import KINDS, kind_of_class

    connector_class = props.get("connector.class", "")
    kind = kind_of_class(connector_class)
    if kind is None:
        classes = ", ".join(kind.connector_class for kind in KINDS.values())
        end(f"{path}: connector.class is {connector_class!r}; it must be one of {classes}", BAD_SETTINGS)
    return kind


def _worker(url: str) -> str | Unknown:
    """The id of the cluster that a Connect worker writes to."""
    import httpx

    from bridge.doctor.facts import Unknown

    if not re.match(r"https?://[^/]", url):
        end(f"--connect-url {url!r} is not of the form http://host:port", BAD_SETTINGS)
    try:
        status = httpx.get(url, timeout=_TIMEOUT).json()
        cluster_id = status.get("kafka_cluster_id") if isinstance(status, dict) else None
    except (httpx.HTTPError, ValueError) as error:
        return Unknown(f"no answer of a Connect worker at {url}: {error}")
    if not isinstance(cluster_id, str):
        return Unknown(f"{url} answers, and not as a Connect worker does")
    return cluster_id


def _skew(url: str) -> float | Unknown:
    """Seconds that the service's clock is ahead, by the Date header of its answer."""
    import httpx

    from bridge.doctor.facts import Unknown

    try:
        response = httpx.get(f"{url.rstrip('/')}/health/live", timeout=_TIMEOUT, verify=tls())
        return parsedate_to_datetime(response.headers["date"]).timestamp() + 0.5 - time.time()
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError) as error:
        return Unknown(f"no answer of the service at {url}: {error}")


def _show(findings: Sequence[Finding], output: Output) -> None:
    if output is Output.JSON:
        show_json({"findings": [asdict(finding) for finding in findings]})
        return
    width = max(len(finding.check) for finding in findings)
    for finding in together(findings):
        sys.stdout.write(
            f"{_WORDS[finding.severity]:<11}  {finding.check:<{width}}  {printable(finding.found)}\n"
        )
        if finding.remedy:
            sys.stdout.write(f"{'':<11}  {'':<{width}}  -> {printable(finding.remedy)}\n")


def together(findings: Sequence[Finding]) -> list[Finding]:
    """What could not be checked for one cause, as one finding: a cluster that is away is told once."""
    from bridge.doctor.facts import NOT_CHECKED, Severity

    causes: dict[tuple[str, str], list[Finding]] = {}
    shown: list[Finding] = []
    for finding in findings:
        _, apart, why = finding.found.partition(NOT_CHECKED)
        if finding.severity is not Severity.NOT_CHECKED or not apart:
            shown.append(finding)
        elif same := causes.get((why, finding.remedy)):
            same.append(finding)
        else:
            causes[why, finding.remedy] = [finding]
            shown.append(finding)
    for (why, _), same in causes.items():
        what = ", ".join(dict.fromkeys(finding.found.partition(NOT_CHECKED)[0] for finding in same))
        if len(same) > 1:
            shown[shown.index(same[0])] = replace(same[0], found=f"{what}{NOT_CHECKED}{why}")
    return shown
