"""`rebalancer jars`: the jars that Spark needs for Kafka topics, for machines without network."""

from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from streaming.jars import locked_jars

app = typer.Typer(no_args_is_help=True, help="Download the jars that Spark needs for Kafka topics.")


@app.callback()
def root() -> None:
    """Download the jars that Spark needs for Kafka topics."""


@app.command(short_help="Download the jars of Spark's Kafka connector to a folder.")
def fetch(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder for the jars; created if missing.")
    ],
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Download the four jars of Spark's Kafka connector to a folder, and verify size and digest of
    each.

    The job downloads them itself when it first uses a Kafka topic. For a machine without network:
    fetch, copy the folder, set jars.folder.
    """
    locked_jars.fetch(
        locked_jars.connector_jars(),
        folder,
        options.settings(config, overrides).job.jars.maven_url,
        console.progress,
    )
    files = locked_jars.present(locked_jars.connector_jars(), folder)
    body = {"folder": str(folder.absolute()), "files": [file.name for file in files]}
    console.answer("jars", body, *map(str, files), as_json=as_json)
