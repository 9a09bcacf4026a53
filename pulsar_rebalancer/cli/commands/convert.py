"""`rebalancer convert`: converts a JSON Lines recording to a columnar one, which back-tests read
many times faster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from sinks.recordings.columnar import ENDING
from sinks.recordings.recorder import converted


def convert(
    recording: Annotated[str, options.JSON_LINES],
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="The columnar recording: .parquet.")
    ],
    *,
    force: options.Force = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Convert a JSON Lines recording to a columnar one (Parquet), for `backtest` and `tune`.

    Decisions are the same. Keeps the fields of load reports that decisions depend on, and every
    byte of other records. The file appears when it is complete.
    """
    if target.suffix != ENDING:
        raise typer.BadParameter(f"{target.name}: end the name with {ENDING}", param_hint="FILE")
    options.refuse_existing(target, force)
    done = converted(recording, target, options.settings(config, overrides).connections.wire)
    if as_json:
        console.print_json(
            "converted",
            1,
            {"file": str(target), "records": done.records, "bytes": target.stat().st_size},
        )
    else:
        console.say(
            f"{target}: {done.records} records, {target.stat().st_size} bytes instead of "
            f"{done.bytes} uncompressed"
        )
