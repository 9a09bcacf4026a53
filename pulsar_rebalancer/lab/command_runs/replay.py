"""`rebalancer replay`: decisions for recorded records, as text, JSON, page and files, and their
summary.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import typer

from pulsar_rebalancer.cli import console, exit_codes
from pulsar_rebalancer.cli.console import Sheet
from pulsar_rebalancer.decisions.explain.measured_move_costs import HEADS, move_costs
from pulsar_rebalancer.lab.command_runs.settings_in_recorded_release import in_recorded_release
from pulsar_rebalancer.lab.replay import decisions, spark
from pulsar_rebalancer.lab.replay.decisions import (
    ClusterSummary,
    Decisions,
    OutcomeCollector,
    timelines,
)
from pulsar_rebalancer.lab.report.page import PageTable, render, write_page
from pulsar_rebalancer.lab.strategy_goal import goal_of
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.recordings.copy_topic import as_line, of_recording, topic_name, topic_records
from sinks.recordings.json_lines import check_use
from sinks.topics.files.topic import TopicRecord
from sinks.topics.open_topics import Skipped, readable
from sinks.topics.topic_settings import Connections, TopicUri, parse_topic
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.record_decoding import Position, decode_rejected
from strategies.cluster.model import Outcome, Round
from strategies.errors import WireError
from strategies.figures.usage_after_moves import reported_spread
from strategies.fold.engine import EngineSettings
from strategies.round.participating_brokers import ABOUT_POLICIES

EngineKind = Literal["plain", "spark"]


def decide_all(
    recording: str | None,
    origin: str,
    settings: Settings,
    engine: EngineKind,
    *,
    out: Path | None,
    html: Path | None,
    fail_on_imbalance: bool,
    as_json: bool,
) -> None:
    """Prints and writes the decisions for a recording, or for the topic `origin`. Raises
    typer.Exit.
    """
    settings, records = _records(recording, origin, settings)
    source = OutcomeCollector(records)
    quiet = as_json or out is not None
    made = decisions.collect(_shown(_answers(source, settings, engine), quiet))
    if quiet:
        _report_rejected(origin, made)
    _report_policies(made)
    files = {} if out is None else _write(out, made, source)
    files |= {} if html is None else _write_html(html, origin, made, settings, source.verdicts())
    _print_summary(origin, source.count, settings, made=made, files=files, as_json=as_json)
    check_use(origin, source.count, len(made.rejected))
    if fail_on_imbalance:
        _fail_on_imbalance(made, settings)


def _records(
    recording: str | None, topic: str, settings: Settings
) -> tuple[Settings, Iterable[TopicRecord]]:
    """The settings in the release of the records, and the records."""
    if recording is not None:
        return in_recorded_release(settings, recording), of_recording(recording)
    uri = parse_topic(topic)
    settings = in_recorded_release(settings, _values(uri, settings.connections))
    return settings, _of_topic(uri, settings.connections)


def _write(out: Path, made: decisions.Decisions, source: OutcomeCollector) -> dict[str, Path]:
    return {
        **decisions.write(made, out),
        **decisions.write_outcomes(source.outcomes_of(made.command_ids()), out),
    }


def _of_topic(topic: TopicUri, connections: Connections) -> Iterator[TopicRecord]:
    """The records of a topic as lines of a recording, with their positions; ends with a warning
    about unread records.
    """
    unread = Skipped(str(topic), "telemetry record")
    for position, value in readable(
        topic_records(topic, connections.access, connections.source), as_line, unread
    ):
        yield TopicRecord(position, value, len(value))
    console.warn(unread.lines())


def _values(topic: TopicUri, connections: Connections) -> Iterator[bytes]:
    for record in topic_records(topic, connections.access, connections.source):
        yield record.value


def _report_rejected(origin: str, made: decisions.Decisions) -> None:
    """Prints a summary of rejected records, if the rows are not printed one by one."""
    skipped = Skipped(origin, "usable telemetry record")
    for row in made.rejected:
        rejected = decode_rejected(row.value)
        skipped.add(
            Position(rejected.topic, rejected.partition, rejected.offset),
            WireError(rejected.code, rejected.text),
        )
    console.warn(skipped.lines())


def _report_policies(made: decisions.Decisions) -> None:
    """Prints what the last rounds say about policies that cannot be read or match no broker."""
    console.warn(
        f"{one.cluster}: {skip.text} [{skip.code}]"
        for one in made.last_rounds()
        for skip in one.skips
        if skip.code in ABOUT_POLICIES
    )


def _answers(
    records: Iterable[TopicRecord], settings: Settings, engine: EngineKind
) -> Iterator[list[OutputRow]]:
    if engine == "plain":
        return decisions.decide(records, settings.engine, settings.connections)

    return spark.decide(records, settings.engine, settings.job, console.progress)


def _shown(answers: Iterable[list[OutputRow]], quiet: bool) -> Iterator[OutputRow]:
    for rows in answers:
        for row in rows:
            if not quiet:
                console.say(decisions.line(row))
            yield row


def _print_summary(
    origin: str,
    records: int,
    settings: Settings,
    *,
    made: decisions.Decisions,
    files: Mapping[str, Path],
    as_json: bool,
) -> None:
    """`records`: how many were read; `files`: what was written, by kind."""
    summaries = decisions.summarise(made)
    if as_json:
        body = summary_as_json(
            origin,
            records,
            settings.engine,
            summaries=summaries,
            decisions=made,
            files=files,
        )
        console.print_json("replay", 1, body)
        return
    if not summaries:
        if records:
            console.say("Nothing was decided: no round closed and no record was rejected.")
        return
    console.show(
        summary_table(summaries),
        "spread: highest minus lowest usage of the brokers, in percentage points",
    )
    if files:
        console.say(f"written: {', '.join(str(path) for path in files.values())}")


def _write_html(
    html: Path,
    origin: str,
    made: decisions.Decisions,
    settings: Settings,
    verdicts: Mapping[str, Outcome],
) -> dict[str, Path]:
    name = topic_name(origin)
    write_page(
        html,
        render(
            timelines(made, settings, verdicts),
            title=f"Replay of {name}",
            made_by=f"rebalancer replay {name}",
            costs=_costs(verdicts.values()),
        ),
    )
    return {"html": html}


def _costs(outcomes: Iterable[Outcome]) -> PageTable | None:
    """What moves have cost, if executors have measured it."""
    rows = [one.row for one in move_costs(outcomes)]
    hint = "As executors have measured it, by the load manager and the topics of the moved bundle."
    best: list[list[int]] = [[] for _ in HEADS]
    return PageTable("What moves have cost", hint, HEADS, rows, best, names=2) if rows else None


def _fail_on_imbalance(made: decisions.Decisions, settings: Settings) -> None:
    goal = goal_of(settings.engine)
    uneven = [last for last in made.last_rounds() if not goal.reached(last)]
    for last in uneven:
        console.progress(
            f"{last.cluster}: a spread of {goal.spread(last):.1f} points "
            f"({goal.strategy.goal.measure}), {goal.verdict(last)}"
        )
    if uneven:
        raise typer.Exit(exit_codes.IMBALANCED)


UNKNOWN = "(none named)"


def summary_table(summaries: Sequence[ClusterSummary]) -> Sheet:
    """One row per cluster; spread: max − min of the brokers' usage in percentage points."""
    rows = [
        [
            summary.cluster or UNKNOWN,
            str(summary.rounds),
            str(summary.commands),
            _points(summary.first),
            _points(summary.last),
            str(summary.rejected),
        ]
        for summary in summaries
    ]
    return Sheet(
        [
            ("cluster", "left"),
            ("rounds", "right"),
            ("commands", "right"),
            ("first spread", "right"),
            ("last spread", "right"),
            ("rejected", "right"),
        ],
        rows,
    )


def summary_as_json(
    recording: str,
    records: int,
    engine: EngineSettings,
    *,
    summaries: Sequence[ClusterSummary],
    decisions: Decisions,
    files: Mapping[str, Path],
) -> dict[str, Any]:
    """The summary for programs; spreads are fractions."""
    codes = Counter(decode_rejected(row.value).code for row in decisions.rejected)
    return {
        "recording": recording,
        "records": records,
        "strategy": engine.strategy,
        "mode": engine.mode,
        "rounds": len(decisions.rounds),
        "commands": len(decisions.commands),
        "rejected": {"total": len(decisions.rejected), "by_code": dict(sorted(codes.items()))},
        "clusters": [
            {
                "cluster": summary.cluster or None,
                "rounds": summary.rounds,
                "commands": summary.commands,
                "rejected": summary.rejected,
                "first_spread": _spread(summary.first),
                "last_spread": _spread(summary.last),
            }
            for summary in summaries
        ],
        "files": {kind: str(path) for kind, path in files.items()},
    }


def _points(record: Round | None) -> str:
    return "–" if record is None else f"{reported_spread(record) * 100:.1f}"


def _spread(record: Round | None) -> dict[str, float] | None:
    return None if record is None else asdict(record.spread)
