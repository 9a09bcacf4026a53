"""`rebalancer shadow`: what Pulsar's own shedder did, beside what ours wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from rebalancer.analysis.explain.history import DecisionHistory, read_history
from rebalancer.analysis.replay import decisions, plain
from rebalancer.analysis.shadow.agreement import compare
from rebalancer.analysis.shadow.ownership import Moved, OwnershipWatch
from rebalancer.analysis.shadow.people import by_people, to_and_fro
from rebalancer.analysis.shadow.traffic import TrafficWatch
from rebalancer.analysis.shadow.window import window
from rebalancer.cli import console, options
from rebalancer.cli.tables import shadow as report
from rebalancer.settings.load import Settings
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
        typer.Argument(metavar="[RECORDING]", help="A .jsonl, .jsonl.gz or .jsonl.zst file; without one, the topics of the settings."),
    ] = None,
    *,
    within: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="A move and a command for the same bundle belong together within this time.")
    ] = 600.0,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Only from then on: 2h before the newest record, or a UTC time.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Only until then: 30m or 2026-11-20T23:51.")] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Compare our decisions with the moves that Pulsar's own shedder made meanwhile. Acts on nothing.

    Run `collect` and `run` on a cluster whose built-in shedder is on, and no executor: then this reads the topics of telemetry, commands
    and rounds. Of a recording, our decisions are those that these settings would have made. Moves are seen in changes of ownership.
    """
    settings = options.settings(config, overrides)
    seen = _look(recording, settings)
    compared = window(since, until, seen.watch.last_ms)
    people = by_people(seen.moved, seen.history.rounds, settings.engine.round.cool_down_ms, seen.traffic)
    bundles = {move.cluster: len(seen.watch.known(move.cluster)) for move in seen.moved}
    agreement = compare(seen.moved, seen.history, round(within * 1000), bundles=bundles, people=people, window=compared)
    wanderers = to_and_fro([move for move in seen.moved if move.ts in compared])
    if as_json:
        body = {
            "records": {"first_ms": seen.watch.first_ms, "last_ms": seen.watch.last_ms},
            "rounds": len(seen.history.rounds),
            "window": {"since_ms": compared.since_ms, "until_ms": compared.until_ms},
            **report.as_json(agreement, wanderers),
        }
        console.print_json("shadow", 1, body)
        return
    console.show(*report.tables(agreement))
    for line in report.wanderings(wanderers):
        print(line)
    print(report.sentence(agreement))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is in the telemetry: moves, and what the watches have learned; and what we decided meanwhile."""

    watch: OwnershipWatch
    traffic: TrafficWatch
    moved: list[Moved]
    history: DecisionHistory


def _look(recording: str | None, settings: Settings) -> _Seen:
    """Reads everything, with a warning for what is not as it should be. Raises SinkError where there is no telemetry."""
    watch, traffic, topics = OwnershipWatch(), TrafficWatch(), settings.job.topics
    skipped = Skipped(recording or topics.telemetry, "telemetry record")
    if recording is None:
        moved = _moves(watch, traffic, topic_records(topics.telemetry, settings.job.access, settings.job.source), skipped)
        history = read_history(topics.rounds, topics.commands, settings.job.access)
    else:
        moved = _moves(watch, traffic, plain.of_recording(recording), skipped)
        history = _decided(recording, settings)
    for told in (*skipped.lines(), *history.skipped):
        console.progress(f"warning: {told}")
    if watch.first_ms is None:
        raise SinkError(f"{skipped.source} holds no telemetry, so nobody's moves can be seen in it; let collect fill it.")
    if watch.applied:
        console.progress(
            f"warning: {watch.applied} commands of ours were carried out meanwhile; shadow mode wants no executor that applies"
        )
    return _Seen(watch, traffic, moved, history)


def _moves(watch: OwnershipWatch, traffic: TrafficWatch, records: Iterable[Placed | TopicRecord], skipped: Skipped) -> list[Moved]:
    def feed(line: bytes) -> list[Moved]:
        traffic.feed(line)
        return watch.feed(line)

    found = [moved for _, some in readable(records, feed, skipped) for moved in some]
    return [*found, *watch.rest()]


def _decided(recording: str, settings: Settings) -> DecisionHistory:
    rows = plain.decide(plain.of_recording(recording), settings.engine, settings.job.wire)
    made = decisions.collect(row for answer in rows for row in answer)
    rounds = tuple(decode_round(row.value) for row in made.rounds)
    return DecisionHistory(rounds, tuple(decode_command(row.value) for row in made.commands))
