"""`rebalancer state`: shows the state of each broker in a checkpoint; `rebalancer state
repartition` gives it another number of partitions.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pulsar_rebalancer.cli import console, options
from streaming.checkpoint.guard import checkpoint_folder

if TYPE_CHECKING:
    from streaming.checkpoint_state.reader import BrokerStateRow, ForgottenRow

_SHOW, _REPARTITION = "show", "repartition"
_Checkpoint = Annotated[
    str | None,
    typer.Argument(
        metavar="[CHECKPOINT]", help="Folder of the checkpoint; by default that of the settings."
    ),
]


class StateGroup(TyperGroup):
    """Shows a checkpoint unless the first word is another command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and args[0] in (_SHOW, _REPARTITION)
        return super().parse_args(ctx, args if named else [_SHOW, *args])


app = typer.Typer(
    cls=StateGroup,
    help="Show the state of each broker in a checkpoint (the default), or give a stopped job "
    "another number of state partitions.",
)

_NONE = "–"


@app.command(_SHOW)
def state(
    checkpoint: _Checkpoint = None,
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show the state of each broker in a checkpoint: averaged usage, hit counts, age of its newest
    report; and which clusters are forgotten.

    Reads the last committed micro-batch through Spark, which takes some seconds; the job may be
    running. `rebalancer state repartition` gives a stopped job another number of partitions.
    """
    folder = checkpoint or options.installation(config, overrides).job.checkpoint
    from streaming.checkpoint_state.reader import read_state

    found = read_state(folder)
    if as_json:
        console.print_json("state", 1, {"checkpoint": folder, **asdict(found)})
        return
    if not found.brokers:
        console.say(f"{folder}: contains no broker")
    for cluster, group in groupby(found.brokers, key=lambda row: row.cluster):
        brokers = list(group)
        console.show(f"cluster {cluster}, round {brokers[0].round}", as_table(brokers), "")
    console.say(*map(forgotten_line, found.forgotten))


@app.command(_REPARTITION)
def repartition(
    checkpoint: _Checkpoint = None,
    *,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", metavar="N", help="New number of partitions.", min=1, max=1_000
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="New folder; by default the place of the checkpoint itself."
        ),
    ] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Give the state of a stopped job another number of partitions.

    The state of each cluster is compared before the new checkpoint counts. Without --to, the old
    checkpoint is kept aside, under a name that is printed. Then start the job with
    job.shuffle_partitions = N (or "auto").
    """
    settings = options.installation(config, overrides)
    from streaming.checkpoint_state.repartition import repartition as copy

    job = settings.job if checkpoint is None else replace(settings.job, checkpoint=checkpoint)
    result = copy(checkpoint_folder(job), partitions, to and to.absolute())
    console.say(
        f"{result.folder}: {partitions} partitions, {result.clusters} clusters, each with the same "
        "state as before"
    )
    if result.aside is not None:
        console.say(f"{result.aside}: the checkpoint as it was; delete it when the job runs")
    console.say(f"start the job with job.shuffle_partitions = {partitions}")


def forgotten_line(one: "ForgottenRow") -> str:
    """A cluster of which only its last round is known."""
    newest = datetime.fromtimestamp(one.newest_ms / 1000, UTC).isoformat(" ", "seconds")
    return (
        f"cluster {one.cluster}, round {one.round}: forgotten, its newest record is of {newest} "
        "(round.forget_cluster_after_days)"
    )


def as_table(brokers: "Sequence[BrokerStateRow]") -> console.Sheet:
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
