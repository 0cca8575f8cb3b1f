"""The command `mirror-bridge`."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bridge import PROTOCOL, VERSION
from bridge.commands import (
    audit,
    client,
    connector,
    doctor,
    failover,
    hand_back,
    index,
    legacy,
    mirror,
    read,
    readiness,
    replicate,
    translate,
)
from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, OF_ANSWERS, OF_MOVES, end
from bridge.commands.options import SingleOptionsApp

app = SingleOptionsApp(
    name="mirror-bridge",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: loading rich would take as long as all else.
    rich_markup_mode=None,
    context_settings={"max_content_width": 120, "help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"mirror-bridge {VERSION} (protocol {PROTOCOL})")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version and that of the HTTP contract.",
        ),
    ] = False,
) -> None:
    """Kafka's MirrorMaker 2 as a Kafka Connect Python bridge."""


app.add_typer(client.app)
app.add_typer(read.app)
app.command()(replicate.replicate)
app.command()(audit.audit)
app.command()(legacy.legacy)
app.command()(mirror.mirror)
app.command(epilog=OF_ANSWERS)(readiness.readiness)
app.command(epilog=OF_ANSWERS)(readiness.groups)
app.command(epilog=OF_ANSWERS)(readiness.explain)
app.command()(connector.refresh)
app.command()(connector.forget)
app.command()(doctor.doctor)
app.command(epilog=OF_MOVES)(failover.failover)
app.command(epilog=OF_MOVES)(failover.rollback)
app.command(epilog=OF_MOVES)(failover.plan)
app.command()(connector.progress)
app.command()(hand_back.hand_back)
app.command()(connector.reset)
app.command()(connector.skip)
app.command()(translate.translate)
app.command()(index.index)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one [8900].")] = None,
    auth_token_file: Annotated[
        Path | None, typer.Option(help="File with the bearer token, or two, a line each.")
    ] = None,
    read_token_file: Annotated[
        Path | None, typer.Option(help="File with a token that may only read.")
    ] = None,
    insecure_no_auth: Annotated[
        bool | None,
        typer.Option("--insecure-no-auth", help="Listen beyond loopback without any token or certificate."),
    ] = None,
    allowed_hosts: Annotated[
        str | None, typer.Option(help="Names that requests may ask for, with commas; * is any.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate chain.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM private key.")] = None,
    tls_client_ca: Annotated[Path | None, typer.Option(help="PEM CA of client certificates.")] = None,
    tls_client_crl: Annotated[Path | None, typer.Option(help="PEM revocation lists of that CA.")] = None,
    tls_changing_subjects: Annotated[
        str | None, typer.Option(help="Subjects of certificates that may change things, by semicolons [all].")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error [info].")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json [text].")] = None,
    audit_log_file: Annotated[
        Path | None, typer.Option(help="File for the audit log, a JSON line a change [the log].")
    ] = None,
    pool_size: Annotated[int | None, typer.Option(help="Threads of each pool for what blocks [2].")] = None,
    pool_queue: Annotated[int | None, typer.Option(help="Requests that may wait for a thread [32].")] = None,
    allowed_spark_keys: Annotated[
        str | None, typer.Option(help="Further spark.* keys that configurations may have, by commas.")
    ] = None,
    allowed_spark_masters: Annotated[
        str | None, typer.Option(help="Values of spark.master beside local ones, by commas.")
    ] = None,
    allowed_python_modules: Annotated[
        str | None, typer.Option(help="Modules that python: may name beside ours, by commas.")
    ] = None,
    allowed_folders: Annotated[
        str | None, typer.Option(help="Folders that files of configurations lie below, by commas [any].")
    ] = None,
    allowed_bootstrap: Annotated[
        str | None, typer.Option(help="Bootstrap servers of configurations, host:port by commas [any].")
    ] = None,
    allowed_token_endpoints: Annotated[
        str | None, typer.Option(help="Hosts of OAuth token endpoints, host[:port] by commas [not ours].")
    ] = None,
    allowed_aws_roles: Annotated[
        str | None, typer.Option(help="AWS roles and profiles of logins by IAM, by commas.")
    ] = None,
    import_seconds: Annotated[
        float | None, typer.Option(help="Time to load their Python code in [3].")
    ] = None,
    check_seconds: Annotated[float | None, typer.Option(help="Time to check a configuration in [5].")] = None,
    max_connections: Annotated[int | None, typer.Option(help="Connections of clients [4096].")] = None,
    max_connections_per_address: Annotated[
        int | None, typer.Option(help="Connections of one address [3072].")
    ] = None,
    max_failed_logins: Annotated[
        int | None, typer.Option(help="Different wrong tokens of an address in a minute [100].")
    ] = None,
    head_seconds: Annotated[
        float | None, typer.Option(help="Time for a TLS handshake, and for a request's head [10].")
    ] = None,
    body_seconds: Annotated[float | None, typer.Option(help="Time for a request's body [30].")] = None,
    max_header_bytes: Annotated[int | None, typer.Option(help="Largest head of a request [16384].")] = None,
    max_body_bytes: Annotated[int | None, typer.Option(help="Largest request body [1048576].")] = None,
    shutdown_grace_seconds: Annotated[float | None, typer.Option(help="Time to end in [10].")] = None,
) -> None:
    """Serve the HTTP contract and run the connectors' rounds.

    Every option is also an environment variable: MIRROR_BRIDGE_PORT, MIRROR_BRIDGE_AUTH_TOKEN and so on; an
    option wins. A token is given by the environment or by a file, never on the command line, where every
    user sees it.
    """
    flags = {name: value for name, value in locals().items() if value is not None}
    from bridge.settings import SettingsRejected, load_settings

    try:
        settings = load_settings(**flags)
    except SettingsRejected as error:
        end(str(error), BAD_SETTINGS)
    from bridge.service.serve import CannotListen, run

    try:
        run(settings)
    except CannotListen as error:
        if settings.log_format == "text":
            end(str(error), CANNOT_START)
        logging.getLogger("bridge").critical("%s", error)
        raise typer.Exit(CANNOT_START) from None


@app.command()
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave it running and print the addresses to look at.")
    ] = False,
    directory: Annotated[Path, typer.Option(help="Where logs, data and report.json go.")] = Path(
        ".local/demo"
    ),
    records: Annotated[int, typer.Option(min=2_000, help="Records to produce on A.")] = 230_000,
) -> None:
    """Fail consumer groups over between two real clusters and show how exactly they resume.

    Exit status 1 when a group re-reads or skips a record on B.
    """
    from bridge.demo.run import run_demo

    raise typer.Exit(run_demo(directory, records=records, keep=keep))


@app.command()
def version() -> None:
    """Print the version and that of the HTTP contract."""
    _show_version(True)


@app.command(name="help", hidden=True)
def show_help(context: typer.Context, names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Show the help of a command, or the list of commands."""
    assert context.parent is not None
    context.parent.command.main([*(names or []), "--help"], prog_name=context.parent.info_name)


@app.command(hidden=True)
def openapi(
    path: Annotated[
        Path | None, typer.Argument(help="File to write; standard output when not given.")
    ] = None,
) -> None:
    """Write the OpenAPI document of the HTTP contract."""
    from bridge.service.contract import contract

    _write(path, contract())


@app.command(hidden=True)
def definitions(
    root: Annotated[Path, typer.Argument(help="Root of the repository to write into.")] = Path("."),
) -> None:
    """Write every connector's keys and rights, and the reasons of answers, for the Java shim and for people; print the
    files that changed."""
    from bridge.doctor.needs import PAGES, with_tables
    from bridge.kafka.config.property_names import rows
    from bridge.service.answers.reasons import PAGE, with_reasons
    from connectors.export import export_definitions

    if not (root / "java-shim" / "pom.xml").exists():
        end(
            f"{root.absolute()} is no checkout of the repository, into which this command writes",
            BAD_SETTINGS,
        )
    for changed in export_definitions(root, list(rows())):
        typer.echo(changed)
    tables = {name: partial(with_tables, name) for name in PAGES} | {PAGE: with_reasons}
    for name, written in tables.items():
        page = root / name
        if page.exists() and (text := written(before := page.read_text("utf-8"))) != before:
            page.write_text(text, "utf-8")
            typer.echo(page)


def _write(path: Path | None, text: str) -> None:
    if path is None:
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        end(f"can't write {path}: {error.strerror}", CANNOT_START)


def main() -> None:
    app()
