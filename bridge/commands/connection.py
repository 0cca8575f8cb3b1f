"""The options by which commands find a cluster: --bootstrap-server and --config."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from bridge.commands.exit_status import BAD_SETTINGS, end
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.model.java_values import given

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
