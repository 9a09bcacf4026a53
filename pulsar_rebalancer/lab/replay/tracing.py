"""A replay's rows as a timeline: the recorded figures of the cluster, and the decisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pulsar_rebalancer.lab.goal import goal_of
from pulsar_rebalancer.lab.replay.decisions import Decisions
from pulsar_rebalancer.lab.report.settings import shown_settings
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from pulsar_rebalancer.lab.simulation.tracing import Tracer
from pulsar_rebalancer.settings.load import Settings
from sinks.wire.codec import decode_command, decode_round
from strategies.cluster.model import Command, Outcome
from strategies.fold.engine import placement_of


def timelines(
    made: Decisions, settings: Settings, verdicts: Mapping[str, Outcome]
) -> list[Timeline]:
    """One timeline per cluster, by name. `verdicts`: recorded outcomes of commands with the same
    id.
    """
    commands: dict[str, dict[str, Command]] = defaultdict(dict)
    for row in made.commands:
        command = decode_command(row.value)
        commands[row.key][command.id] = command
    tracers: dict[str, Tracer] = {}
    goal = goal_of(settings.engine)
    for row in made.rounds:
        record = decode_round(row.value)
        tracer = tracers.setdefault(row.key, _tracer(row.key, settings, goal.text))
        tracer.round(
            record, [commands[row.key][one] for one in record.commands], goal.reached(record)
        )
        for name in record.commands:
            if name in verdicts:
                tracer.outcome(verdicts[name])
    return [tracer.timeline() for _, tracer in sorted(tracers.items())]


def _tracer(cluster: str, settings: Settings, goal: str) -> Tracer:
    engine = settings.engine
    return Tracer(
        title=f"{cluster}: {engine.strategy}",
        kind="recorded",
        strategy=f"{engine.strategy}/{engine.mode}",
        placement=placement_of(engine)[0],
        goal=goal,
        interval_ms=engine.round.interval_ms,
        settings=shown_settings(settings),
        notes=("The recorded reports do not react to these moves: their effect is unknown.",),
    )
