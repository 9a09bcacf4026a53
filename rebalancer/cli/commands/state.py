"""`rebalancer state`: shows the state of each broker in a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from rebalancer.cli import console, options

if TYPE_CHECKING:
    from streaming.state.reader import BrokerStateRow

app = typer.Typer()

_NONE = "–"


@app.command()
def state(
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHECKPOINT]",
            help="Folder of the checkpoint; by default that of the settings.",
        ),
    ] = None,
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show the state of each broker in a checkpoint: averaged usage, hit counts, age of its newest
    report.

    Reads the last committed micro-batch through Spark, which takes some seconds; the job may be
    running.
    """
    folder = (
        checkpoint if checkpoint is not None else options.settings(config, overrides).job.checkpoint
    )
    from streaming.state.reader import read_state

    rows = read_state(folder)
    if as_json:
        console.print_json(
            "state", 1, {"checkpoint": folder, "brokers": [asdict(row) for row in rows]}
        )
        return
    if not rows:
        print(f"{folder}: contains no broker yet")
    for cluster, group in groupby(rows, key=lambda row: row.cluster):
        brokers = list(group)
        console.show(f"cluster {cluster}, round {brokers[0].round}", as_table(brokers), "")


def as_table(brokers: Sequence[BrokerStateRow]) -> console.Sheet:
    """The brokers of one cluster. EWMA is the state of ThresholdShedder, hits are that of
    AvgShedder.
    """
    columns: list[tuple[str, console.Side]] = [
        ("broker", "left"),
        *(
            (name, "right")
            for name in ("report age", "EWMA", "hits high", "low", "bundles", "msg/s", "MB/s")
        ),
    ]
    rows = [
        [
            row.broker,
            _NONE if row.age_ms is None else f"{row.age_ms / 1000:.1f} s",
            _NONE if row.ewma is None else f"{row.ewma * 100:.1f} %",
            _NONE if row.hit_high is None else str(row.hit_high),
            _NONE if row.hit_low is None else str(row.hit_low),
            str(row.bundles),
            f"{row.msg_rate:.0f}",
            f"{row.msg_throughput / 1e6:.2f}",
        ]
        for row in brokers
    ]
    return console.Sheet(columns, rows)
