"""`rebalancer shadow`: compares the moves of Pulsar's own shedder with our decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.decisions.log import DecisionLog, read_log
from pulsar_rebalancer.lab.commands import lab_options
from pulsar_rebalancer.lab.replay import decisions, plain
from pulsar_rebalancer.lab.shadow.agreement import compare
from pulsar_rebalancer.lab.shadow.manual_moves import by_people, to_and_fro
from pulsar_rebalancer.lab.shadow.ownership import Moved, OwnershipWatch
from pulsar_rebalancer.lab.shadow.traffic import TrafficWatch
from pulsar_rebalancer.lab.shadow.window import window
from pulsar_rebalancer.lab.tables import shadow as report
from pulsar_rebalancer.settings.load import Settings
from sinks.recordings.placed_lines import of_recording
from sinks.recordings.recorder import topic_records
from sinks.topics.access import TopicRecord
from sinks.topics.readable import Placed, Skipped, readable
from sinks.wire.codec import decode_command, decode_round
from strategies.errors import SinkError

app = typer.Typer()


@app.command()
def shadow(
    recording: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECORDING]",
            help="A .jsonl, .jsonl.gz or .jsonl.zst file; without one, the topics of the settings.",
        ),
    ] = None,
    *,
    within: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Maximum time between a move and a command for the same bundle that are matched.",
        ),
    ] = 600.0,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only records after this time: 2h before the newest record, or a UTC time.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Only records before this time: 30m or 2026-11-20T23:51."
        ),
    ] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Compare our decisions with the moves of Pulsar's own shedder. Changes nothing.

    Run `collect` and `run` on a cluster whose built-in shedder is enabled, without executor; this
    command reads the topics of telemetry, commands and rounds. For a recording, decisions are
    computed with these settings. Moves are detected as changes of ownership.
    """
    settings = options.settings(config, overrides)
    given = _read_input(recording, settings)
    compared = window(since, until, given.watch.last_ms)
    people = by_people(
        given.moved, given.history.rounds, settings.engine.round.cool_down_ms, given.traffic
    )
    bundles = {move.cluster: len(given.watch.known(move.cluster)) for move in given.moved}
    agreement = compare(
        given.moved,
        given.history,
        round(within * 1000),
        bundles=bundles,
        people=people,
        window=compared,
    )
    wanderers = to_and_fro([move for move in given.moved if move.ts in compared])
    if as_json:
        body = {
            "records": {"first_ms": given.watch.first_ms, "last_ms": given.watch.last_ms},
            "rounds": len(given.history.rounds),
            "window": {"since_ms": compared.since_ms, "until_ms": compared.until_ms},
            **report.as_json(agreement, wanderers),
        }
        console.print_json("shadow", 1, body)
        return
    console.show(*report.tables(agreement))
    for line in report.wanderings(wanderers):
        console.say(line)
    console.say(report.sentence(agreement))


@dataclass(frozen=True, slots=True)
class _Input:
    """The input of the comparison: moves and traffic in the telemetry, and our decisions of the
    same time.
    """

    watch: OwnershipWatch
    traffic: TrafficWatch
    moved: list[Moved]
    history: DecisionLog


def _read_input(recording: str | None, settings: Settings) -> _Input:
    """Reads the input and prints warnings. Raises SinkError without telemetry."""
    watch, traffic, topics = OwnershipWatch(), TrafficWatch(), settings.connections.topics
    skipped = Skipped(recording or str(topics.telemetry), "telemetry record")
    if recording is None:
        moved = _moves(
            watch,
            traffic,
            topic_records(
                topics.telemetry, settings.connections.access, settings.connections.source
            ),
            skipped,
        )
        history = read_log(topics.rounds, topics.commands, settings.connections.access)
    else:
        moved = _moves(watch, traffic, of_recording(recording), skipped)
        history = _decided(recording, lab_options.in_recorded_release(settings, recording))
    console.warn([*skipped.lines(), *history.skipped])
    if watch.first_ms is None:
        raise SinkError(
            f"{skipped.source} contains no telemetry, so moves cannot be detected; run "
            "collect first."
        )
    if watch.applied:
        console.progress(
            f"warning: {watch.applied} of our commands were applied meanwhile; shadow mode "
            "requires that no executor applies commands"
        )
    return _Input(watch, traffic, moved, history)


def _moves(
    watch: OwnershipWatch,
    traffic: TrafficWatch,
    records: Iterable[Placed | TopicRecord],
    skipped: Skipped,
) -> list[Moved]:
    def feed(line: bytes) -> list[Moved]:
        traffic.feed(line)
        return watch.feed(line)

    found = [moved for _, some in readable(records, feed, skipped) for moved in some]
    return [*found, *watch.rest()]


def _decided(recording: str, settings: Settings) -> DecisionLog:
    # Pulsar's shedder is what is compared with, not a rival.
    engine = replace(settings.engine, rivals=replace(settings.engine.rivals, moves_per_hour=0))
    rows = plain.decide(of_recording(recording), engine, settings.connections.wire)
    made = decisions.collect(row for answer in rows for row in answer)
    return DecisionLog(
        tuple(decode_round(row.value) for row in made.rounds),
        tuple(decode_command(row.value) for row in made.commands),
    )
