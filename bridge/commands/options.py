"""Options, and files of configurations, that several commands take.

Commands that take each option once: of two values the last would count, and the first be dropped in silence.

The options by which commands find a cluster: --bootstrap-server and --config.

Configurations of connectors that are given to commands as files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Typer
from typer.core import TyperCommand, TyperOption

from bridge.commands.exit_status import BAD_SETTINGS, end
from bridge.connector_files import load_connector, unresolved
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.model.java_values import given

if TYPE_CHECKING:
    from connectors.base import Kind


Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap-server", help="Brokers to begin with, host:port,host:port.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Java .properties file with bootstrap.servers, replication.policy.* and Kafka's client properties "
        "(security.protocol, ssl.*, sasl.*); secrets belong there.",
    ),
]
Function = TypeVar("Function", bound=Callable[..., Any])


def properties(config: Path | None, bootstrap: str | None) -> dict[str, str]:
    """The client properties of the file; --bootstrap-server wins over its bootstrap.servers."""
    if config is None and bootstrap is None:
        end("give --bootstrap-server host:port, or --config FILE with bootstrap.servers", BAD_SETTINGS)
    try:
        props = {} if config is None else given(load_properties(config))
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    if bootstrap is not None:
        props["bootstrap.servers"] = bootstrap
    # The library logs each failed attempt; the command reports the outcome once, at the end.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return props


def read_connector(path: Path) -> dict[str, str]:
    """Loads a configuration whose values are all written out; ends the command where it can't."""
    try:
        config = load_connector(path)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    if any("->" in key for key in config):
        end(
            f"{path} is a file of mirror-bridge mirror, with all connectors of its flows; this command takes the "
            "configuration of one. Write that one's keys into a file of its own, as docs/dedicated.md derives them, "
            "or, for doctor, ask the node: mirror-bridge doctor --connector 'A->B.MirrorSourceConnector' --url NODE",
            BAD_SETTINGS,
        )
    if left := unresolved(config):
        end(
            f"{path}: {', '.join(left)} refer to config providers, which only Connect can read: write the values out",
            BAD_SETTINGS,
        )
    return config


def copying_kind(config: Mapping[str, str], where: str = "") -> Kind:
    """Returns the kind of a connector that copies; without a class the source connector. Ends the command for another
    one; `where`: what its message begins with."""
    from connectors.registry import KINDS, kind_of_class

    copying = KINDS["source"], KINDS["sink"]
    connector_class = config.get("connector.class")
    kind = copying[0] if connector_class is None else kind_of_class(connector_class)
    if kind not in copying:
        names = " or ".join(kind.connector_class for kind in copying)
        end(
            f"{where}connector.class is {connector_class}; it must be {names}; without the key it is the first",
            BAD_SETTINGS,
        )
    assert kind is not None
    return kind


class SingleOptionsCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, parameters = self.make_parser(ctx).parse_args(args=list(args))
        for option in dict.fromkeys(parameters):
            times = parameters.count(option)
            if times > 1 and isinstance(option, TyperOption) and not (option.multiple or option.is_flag):
                ctx.fail(f"{option.opts[0]} is given {times} times, and only one can count: give it once")
        return TyperCommand.parse_args(self, ctx, args)


class SingleOptionsApp(Typer):
    """Makes such commands of functions."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        made: Callable[[Function], Function] = Typer.command(
            self, name, **{"cls": SingleOptionsCommand, **settings}
        )
        return made
