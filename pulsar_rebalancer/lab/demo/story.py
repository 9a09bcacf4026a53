"""Texts of the demo: the introduction, the decision of each round with its reason, the files and
the next commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from pulsar_rebalancer.decisions.round_texts import advice_text, sentences
from pulsar_rebalancer.lab.demo.plan import BROKERS, BUNDLES, DemoPlan
from pulsar_rebalancer.lab.demo.result import Result, files
from pulsar_rebalancer.lab.goal import Goal
from pulsar_rebalancer.lab.simulation.closed_loop import Step
from sinks.topics.files.segments import segment_path
from strategies.cluster.model import Round
from strategies.figures.describe import counted
from strategies.round.proof import proof_of

#: Content of each file and folder of the run.
_WHAT: Mapping[str, str] = {
    "telemetry": "load reports of the brokers (like all topics: one JSON record per line)",
    "commands": "bundles to move, with the reason",
    "rounds": "input and decision of each round, with all skips",
    "rejected": "invalid records",
    "outcomes": "result of each command",
    "settings": "settings of this run",
    "report": "charts of this run: open it in a browser",
    "checkpoint": "progress and state of the Spark job",
    "log": "log of the Spark job",
}


def short(broker: str) -> str:
    """A broker's name without its port."""
    return broker.rpartition(":")[0] or broker


def introduction(plan: DemoPlan, goal: Goal) -> list[tuple[str, str]]:
    """Describes the run that follows: pairs of label and sentence."""
    decider = (
        "the Spark job (rebalancer run)" if plan.engine == "spark" else "a plain loop (no Spark)"
    )
    others = [f"{one.key} = {_written(one.value)}: {one.why}" for one in plan.overrides]
    others += [f"{path} = {_written(value)}" for path, value in plan.requested.items()]
    return [
        (
            "cluster",
            f"modelled: {BROKERS} brokers, {BUNDLES} bundles; two brokers run hot, two were "
            "restarted and are nearly idle",
        ),
        (
            "round",
            f"one minute of its own time: all brokers report, {decider} decides, a simulated "
            "executor moves bundles",
        ),
        (
            "strategy",
            f"{goal.strategy}, {plan.mode} mode: "
            f"{goal.summary[:1].lower()}{goal.summary[1:].rstrip('.')}",
        ),
        ("goal", goal.text),
        (
            "settings",
            f"{plan.settings_file}, all at their defaults"
            + (f" except {'; '.join(others)}" if others else ""),
        ),
    ]


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def extremes(record: Round) -> tuple[str, str]:
    """The busiest and the idlest broker of a round, each with its usage."""
    by_usage = sorted(record.usage.items(), key=lambda item: item[1])
    (idlest, low), (busiest, high) = by_usage[0], by_usage[-1]
    return f"{short(busiest)} {100 * high:.1f} %", f"{short(idlest)} {100 * low:.1f} %"


def decided(step: Step, goal: Goal) -> str:
    """The decision of a round in a few words."""
    if step.commands:
        return f"{counted(len(step.commands), 'bundle')} to move"
    return "balanced, nothing to move" if goal.reached(step.round) else "nothing to move yet"


def reasons(step: Step, goal: Goal) -> list[str]:
    """One line per source broker with the reason of its first command, and what the round proves,
    if its strategy states it; without commands, why the busiest broker keeps its bundles, and what
    to do where moving bundles cannot help.
    """
    proof = proof_of(step.round)
    if step.commands:
        lines = [
            _moves_of(source, step) for source in dict.fromkeys(one.source for one in step.commands)
        ]
        lines += sentences(proof)
    else:
        lines = [] if goal.reached(step.round) else _why_not(step.round)
        lines += [advice_text(skip, proof.certificate) for skip in proof.advice]
    return [_shortened(line, step.round.brokers) for line in lines]


def closing(result: Result, program: str, here: Path) -> list[str]:
    """Lists the files and the next commands. `program`: name of the program; `here`: folder that
    shown paths are relative to.
    """
    lines = [f"Files are in {result.plan.folder}:"]
    lines += [f"  {name:<12} {_WHAT[kind]}" for kind, name in files(result.plan).items()]
    lines += ["Try next:"]
    lines += [f"  {program} {command}" for command in next_commands(result, here)]
    return lines


def next_commands(result: Result, here: Path) -> list[str]:
    """Commands that analyse this run, without the program's name."""
    plan = result.plan
    config = f"--config {_seen_from(here, plan.settings_file)}"
    commands = [one.id for step in result.steps for one in step.commands]
    where = config if plan.kafka else f"--from {_seen_from(here, plan.folder)}"
    explain = [f"explain {commands[0]} {where}"] if commands else []
    telemetry = (
        f"--from-topic {plan.topic_uri('telemetry')}"
        if plan.kafka
        else _seen_from(here, segment_path(plan.topic("telemetry"), 0))
    )
    return [
        *explain,
        f"replay {telemetry} {config}",
        *([f"state {config}"] if plan.engine == "spark" else []),
    ]


def _seen_from(here: Path, path: Path) -> str:
    """The path quoted for a shell, relative if it is inside `here`."""
    return quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _moves_of(source: str, step: Step) -> str:
    """`8 bundles a → b, c; the first because …`. Destinations are taken from the outcomes, because
    an unload names none.
    """
    commands = [one for one in step.commands if one.source == source]
    went = {outcome.command_id: outcome.owner_after or "nowhere" for outcome in step.outcomes}
    destinations = dict.fromkeys(went[one.id] for one in commands)
    first = "" if len(commands) == 1 else "; the first"
    return (
        f"{counted(len(commands), 'bundle')} {source} → {', '.join(destinations)}{first} because "
        f"{commands[0].text}"
    )


def _shortened(line: str, brokers: Sequence[str]) -> str:
    for broker in brokers:
        line = line.replace(broker, short(broker))
    return line


def _why_not(record: Round) -> list[str]:
    busiest = max(record.usage, key=lambda name: record.usage[name])
    advice = proof_of(record).advice
    skips = [skip for skip in record.skips if skip not in advice]
    about = [skip for skip in skips if skip.subject == "broker" and busiest in skip.names]
    return [skip.text for skip in (about or skips)[:1]]
