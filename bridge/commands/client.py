"""`mirror-bridge client`: MirrorClient's methods on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.exit_status import BAD_SETTINGS, end, reported
from bridge.commands.options import Bootstrap, Config, SingleOptionsApp, properties
from bridge.commands.show import Output, OutputOption, show_json, show_names, show_offsets

if TYPE_CHECKING:
    from bridge.mm2.java_regex import JavaPattern

app = SingleOptionsApp(
    name="client",
    help="Ask a cluster where its mirrored topics come from, and where groups resume on it.",
    no_args_is_help=True,
)


@app.command()
def hops(
    alias: Annotated[str, typer.Argument(help="Alias of the cluster upstream.")],
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the hops that heartbeats of a cluster take to this one; -1 when none arrive."""
    from bridge.client import replication_hops

    with reported():
        count = replication_hops(properties(config, bootstrap), alias)
    if output is Output.JSON:
        show_json({"source": alias, "hops": count})
    else:
        typer.echo(count)


@app.command()
def heartbeat_topics(
    bootstrap: Bootstrap = None, config: Config = None, output: OutputOption = Output.TABLE
) -> None:
    """List topics with heartbeats, of this cluster and of those upstream."""
    from bridge import client

    with reported():
        show_names(client.heartbeat_topics(properties(config, bootstrap)), output)


@app.command()
def checkpoint_topics(
    bootstrap: Bootstrap = None, config: Config = None, output: OutputOption = Output.TABLE
) -> None:
    """List topics with checkpoints."""
    from bridge import client

    with reported():
        show_names(client.checkpoint_topics(properties(config, bootstrap)), output)


@app.command()
def upstream_clusters(
    bootstrap: Bootstrap = None, config: Config = None, output: OutputOption = Output.TABLE
) -> None:
    """List the clusters whose heartbeats arrive here, however many hops away."""
    from bridge import client

    with reported():
        show_names(client.upstream_clusters(properties(config, bootstrap)), output)


@app.command()
def remote_topics(
    source_alias: Annotated[str | None, typer.Option(help="Only those mirrored directly from there.")] = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the topics that are mirrored to this cluster."""
    from bridge import client

    with reported():
        show_names(client.remote_topics(properties(config, bootstrap), source_alias), output)


@app.command()
def offsets(
    source_alias: Annotated[str, typer.Option(help="Alias of the cluster that the groups are of.")],
    group: Annotated[str | None, typer.Option(help="One group.")] = None,
    group_pattern: Annotated[
        str | None, typer.Option(help="All groups whose whole id matches, a Java regex.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to read checkpoints for.")] = 30.0,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show where groups of another cluster resume here, by their checkpoints.

    What could not be read in time is missing, and standard error says so.
    """
    pattern = _pattern(group, group_pattern)
    from bridge.client import translate_offsets

    with reported():
        offsets = translate_offsets(properties(config, bootstrap), source_alias, pattern, timeout)
        show_offsets(offsets, output)


def _pattern(group: str | None, group_pattern: str | None) -> JavaPattern:
    from bridge.mm2.java_regex import PatternProblem, compile_java, exactly

    if (group is None) == (group_pattern is None):
        end("give one of --group and --group-pattern", BAD_SETTINGS)
    if group_pattern is None:
        assert group is not None
        return exactly(group)

    try:
        return compile_java(group_pattern)
    except PatternProblem as problem:
        end(f"--group-pattern: {problem}", BAD_SETTINGS)
