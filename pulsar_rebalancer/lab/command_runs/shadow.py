"""`rebalancer shadow`: compares the moves of Pulsar's own shedder with our decisions, as text and
JSON.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.console import RenderableType

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.decisions.explain.explanation_lines import formatted
from pulsar_rebalancer.decisions.log import DecisionLog, read_log
from pulsar_rebalancer.lab.command_runs.settings_in_recorded_release import in_recorded_release
from pulsar_rebalancer.lab.replay import decisions
from pulsar_rebalancer.lab.shadow.agreement import Agreement, MovePair, compare, window
from pulsar_rebalancer.lab.shadow.manual_moves import Wanderer, by_people, to_and_fro
from pulsar_rebalancer.lab.shadow.ownership import Moved, OwnershipWatch
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.recordings.copy_topic import of_recording, topic_records
from sinks.topics.open_topics import Skipped, readable
from sinks.wire.record_decoding import decode_command, decode_round
from strategies.errors import SinkError


def compare_moves(
    recording: str | None,
    settings: Settings,
    within: float,
    between: tuple[str | None, str | None],
    *,
    as_json: bool,
) -> None:
    """Prints the comparison. `within`: seconds between a move and a command that match; `between`:
    when it begins and ends.
    """
    watch, moved, history = _read_input(recording, settings)
    compared = window(*between, watch.last_ms)
    people = by_people(moved, history.rounds, settings.engine.round.cool_down_ms, watch.traffic)
    bundles = {move.cluster: len(watch.known(move.cluster)) for move in moved}
    agreement = compare(
        moved,
        history,
        round(within * 1000),
        bundles=bundles,
        people=people,
        window=compared,
    )
    wanderers = to_and_fro([move for move in moved if move.ts in compared])
    if as_json:
        body = {
            "records": {"first_ms": watch.first_ms, "last_ms": watch.last_ms},
            "rounds": len(history.rounds),
            "window": {"since_ms": compared.since_ms, "until_ms": compared.until_ms},
            **agreement_as_json(agreement, wanderers),
        }
        console.print_json("shadow", 1, body)
        return
    console.show(*tables(agreement))
    console.say(*wanderings(wanderers), sentence(agreement))


def _read_input(
    recording: str | None, settings: Settings
) -> tuple[OwnershipWatch, list[Moved], DecisionLog]:
    """Reads the input and prints warnings. Raises SinkError without telemetry."""
    watch, topic = OwnershipWatch(), settings.connections.topics.telemetry
    skipped = Skipped(recording or str(topic), "telemetry record")
    if recording is None:
        records = topic_records(topic, settings.connections.access, settings.connections.source)
    else:
        records = of_recording(recording)
    moved = [one for _, some in readable(records, watch.feed, skipped) for one in some]
    moved += watch.rest()
    history = _history(recording, settings)
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
    return watch, moved, history


def _history(recording: str | None, settings: Settings) -> DecisionLog:
    if recording is None:
        topics = settings.connections.topics
        return read_log(topics.rounds, topics.commands, settings.connections.access)
    settings = in_recorded_release(settings, recording)
    # Pulsar's shedder is what is compared with, not a rival.
    engine = replace(settings.engine, rivals=replace(settings.engine.rivals, moves_per_hour=0))
    rows = decisions.decide(of_recording(recording), engine, settings.connections)
    made = decisions.collect(row for answer in rows for row in answer)
    return DecisionLog(
        tuple(decode_round(row.value) for row in made.rounds),
        tuple(decode_command(row.value) for row in made.commands),
    )


def sentence(agreement: Agreement) -> str:
    """The result as one sentence."""
    if not agreement.pairs:
        return "Neither Pulsar's shedder nor ours moved a bundle."
    both, theirs, ours, people = (
        agreement.count(verdict) for verdict in ("both", "only Pulsar", "only ours", "a person")
    )
    parts = f"{both} by both, {theirs} only by Pulsar, {ours} only by ours"
    others = f", {people} by a person, which are not compared" if people else ""
    return f"Bundles: {parts}{others}{_agreement(agreement)}{_later(agreement)}."


def wanderings(found: Sequence[Wanderer]) -> Iterator[str]:
    """One line per bundle that moves back and forth."""
    for one in found:
        yield f"{one.bundle} moves back and forth: {one.moves} moves, {' → '.join(one.path)}"


def _agreement(agreement: Agreement) -> str:
    if agreement.f1 is None:
        return ""
    if agreement.agreement is None:
        return "; agreement unknown: too few bundles to distinguish it from chance"
    return f"; agreement {agreement.agreement:.2f} (1 = the same moves, 0 = no more than chance)"


def _later(agreement: Agreement) -> str:
    lag = agreement.lag_ms
    if lag is None:
        return ""
    return (
        f"; ours decided {abs(lag) / 1000:.0f} s {'after' if lag >= 0 else 'before'} Pulsar's "
        "move was detected (median)"
    )


def tables(agreement: Agreement) -> Iterator[RenderableType]:
    """Tables of brokers and of bundles."""
    if not agreement.pairs:
        return
    columns: list[tuple[str, console.Side]] = [
        ("cluster", "left"),
        ("from broker", "left"),
        ("both", "right"),
        ("only Pulsar", "right"),
        ("only ours", "right"),
    ]
    counted = [
        [row.cluster, row.broker, str(row.both), str(row.only_pulsar), str(row.only_ours)]
        for row in agreement.brokers()
    ]
    yield console.Sheet(columns, counted)
    headings: list[tuple[str, console.Side]] = [
        (name, "left") for name in ("when", "bundle", "verdict", "moves", "lag", "why")
    ]
    rows: list[list[console.Cell]] = [
        [
            formatted(pair.ts, "%H:%M:%S"),
            pair.bundle,
            pair.verdict,
            _moves(pair),
            "" if pair.lag_ms is None else f"{pair.lag_ms / 1000:+.0f} s",
            pair.person or pair.why,
        ]
        for pair in agreement.pairs
    ]
    yield console.Sheet(headings, rows)


def agreement_as_json(agreement: Agreement, wanderers: Sequence[Wanderer] = ()) -> dict[str, Any]:
    """All figures by name; times in ms, fractions 0–1."""
    return {
        "both": agreement.count("both"),
        "only_pulsar": agreement.count("only Pulsar"),
        "only_ours": agreement.count("only ours"),
        "a_person": agreement.count("a person"),
        "agreement": agreement.agreement,
        "f1": agreement.f1,
        "f1_by_chance": agreement.by_chance,
        "agreement_by_bundle": agreement.by_bundle,
        "agreement_by_broker": agreement.by_broker,
        "median_lag_ms": agreement.lag_ms,
        "brokers": [
            {
                "cluster": row.cluster,
                "broker": row.broker,
                "both": row.both,
                "only_pulsar": row.only_pulsar,
                "only_ours": row.only_ours,
            }
            for row in agreement.brokers()
        ],
        "to_and_fro": [
            {"cluster": one.cluster, "bundle": one.bundle, "path": one.path} for one in wanderers
        ],
        "bundles": [_fields(pair) for pair in agreement.pairs],
    }


def _fields(pair: MovePair) -> dict[str, Any]:
    moved, wanted = pair.moved, pair.wanted
    return {
        "cluster": pair.cluster,
        "bundle": pair.bundle,
        "source": pair.source,
        "verdict": pair.verdict.replace(" ", "-").lower(),
        "pulsar": None
        if moved is None
        else {"ts": moved.ts, "source": moved.source, "destination": moved.destination},
        "ours": None
        if wanted is None
        else {
            "ts": wanted.issued_at_ms,
            "command": wanted.id,
            "round": wanted.round,
            "source": wanted.source,
            "destination": wanted.destination,
            "reason": f"{wanted.code}: {wanted.text}",
        },
        "lag_ms": pair.lag_ms,
        "same_destination": pair.same_destination,
        "why": pair.why,
        "person": pair.person,
    }


def _moves(pair: MovePair) -> tuple[str, ...]:
    lines = []
    if pair.moved is not None:
        lines.append(f"Pulsar: {pair.moved.source} → {pair.moved.destination}")
    if pair.wanted is not None:
        lines.append(f"ours: {pair.wanted.source} → {pair.wanted.destination or '?'}")
    return tuple(lines)
