"""The result of a demo run: one sentence for the terminal, one JSON object for programs, the exit
code, the report, and the commands to try next.
"""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.decisions.skip_and_certificate_texts import (
    NOTHING,
    data_rate,
    figure,
    proves_bound,
    sentences,
)
from pulsar_rebalancer.lab.demo.plan import BUNDLES, CLUSTER, TOPICS, DemoPlan
from pulsar_rebalancer.lab.report.page import can_write, render, shown_settings, write_page
from pulsar_rebalancer.lab.report.verdict import NextStep
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import RoundAnswer
from pulsar_rebalancer.lab.simulation.telemetry_json import outcome_fields
from pulsar_rebalancer.lab.simulation.timeline import Measured, Timeline, Tracer, unjudged
from pulsar_rebalancer.lab.strategy_goal import Goal
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.topics.files.segments import segment_path
from strategies.cluster.round_figures import Certificate
from strategies.fold.engine import placement_of
from strategies.round.commands_and_record import proof_of


@dataclass(frozen=True)
class Result:
    """All steps of a run, in order, and its wall-clock duration; `steps` is never empty."""

    plan: DemoPlan
    goal: Goal
    bundles: int
    steps: tuple[RoundAnswer, ...]
    seconds: float

    @property
    def balanced(self) -> bool:
        return self.goal.reached(self.steps[-1].round)

    @property
    def exit_code(self) -> int:
        """Exit code of the demo."""
        return exit_codes.OK if self.balanced else exit_codes.IMBALANCED

    @property
    def moved(self) -> int:
        """Number of moves that were carried out."""
        return sum(outcome.status == "applied" for step in self.steps for outcome in step.outcomes)

    @property
    def spreads(self) -> tuple[float, float]:
        """First and last spread, in percentage points."""
        return self.goal.spread(self.steps[0].round), self.goal.spread(self.steps[-1].round)

    def sentence(self) -> str:
        """The sentence that ends the demo."""
        first, last = self.spreads
        measure = self.goal.strategy.goal.measure
        change = f"the spread ({measure}) went from {first:.1f} to {last:.1f} points"
        effort = f"{self.moved} of {self.bundles} bundles were moved in {len(self.steps)} rounds"
        outcome = f"{change}, {self.goal.verdict(self.steps[-1].round)}; {effort}."
        if self.balanced:
            return f"Balanced: {outcome}"
        return f"{self._lead()}: {outcome} Try more rounds: --rounds {2 * self.plan.rounds}."

    def _lead(self) -> str:
        """What the last round says of a cluster that is not known to be balanced."""
        waits = unjudged(self.steps[-1].round.skips)
        if waits is None:
            return "Not balanced yet"
        return "Waits for samples" if waits.code == "waiting-for-samples" else "Not judged"

    def proof(self) -> str:
        """What the rounds prove: the last one how near the optimum the cluster is, the one that
        moved most how much of that was necessary. Empty if the strategy states nothing of this.
        """
        rounds = [step.round for step in self.steps]
        near = "" if rounds[-1].certificate is None else optimum_text(rounds[-1].certificate)
        biggest = max(rounds, key=lambda one: one.certificate.moved if one.certificate else 0.0)
        effort = "" if biggest.certificate is None else least_text(biggest.certificate)
        said = [near, f"round {biggest.round} {effort}" if effort else ""]
        return f"Proven: {'; '.join(filter(None, said))}." if any(said) else ""

    def as_json(self) -> dict[str, Any]:
        """The body of `rebalancer demo --json`."""
        first, last = self.spreads
        return {
            "balanced": self.balanced,
            "strategy": self.plan.strategy,
            "mode": self.plan.mode,
            "engine": self.plan.engine,
            "seed": self.plan.seed,
            "measure": self.goal.strategy.goal.measure.replace("−", "-"),
            "threshold_points": self.goal.threshold,
            "spread_first_points": first,
            "spread_last_points": last,
            "bundles": self.bundles,
            "moved": self.moved,
            "seconds": round(self.seconds, 1),
            "rounds": [_round(step, self.goal) for step in self.steps],
            "overrides": {
                path.rpartition(".")[2]: value for path, (value, _) in self.plan.overrides.items()
            },
            "folder": str(self.plan.folder),
            "files": files(self.plan),
            "text": self.sentence(),
            "proof": self.proof() or None,
        }


def files(plan: DemoPlan) -> dict[str, str]:
    """Paths in the run's folder → their content; folders end with a slash."""
    named = ({} if plan.kafka else {name: f"{name}/" for name in TOPICS}) | {
        "settings": plan.settings_file.name
    }
    if plan.report.exists():
        named["report"] = plan.report.name
    return (
        named
        if plan.engine == "plain"
        else named | {"checkpoint": f"{plan.checkpoint.name}/", "log": plan.log.name}
    )


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


def _round(step: RoundAnswer, goal: Goal) -> dict[str, Any]:
    return {
        "round": step.round.round,
        "ts": step.round.ts,
        "spread_points": goal.spread(step.round),
        "usage": dict(step.round.usage),
        "sentences": sentences(proof_of(step.round)),
        "commands": [
            {
                "id": one.id,
                "bundle": one.bundle,
                "source": one.source,
                "destination": one.destination,
                "code": one.code,
                "text": one.text,
            }
            for one in step.commands
        ],
        "outcomes": [outcome_fields(outcome) for outcome in step.outcomes],
    }


_NEXT_STEPS = (
    NextStep(
        "See another cluster, or another strategy:",
        "rebalancer demo --seed 2 --strategy threshold",
    ),
    NextStep(
        "Analyse your own cluster without changing it: collect its load reports, then replay them."
    ),
)


def write_demo_report(result: Result, settings: Settings, html: Path | None) -> None:
    """Writes the report to the demo's folder, and to `html`. Without plotly there is none; but
    raises SettingsError if `html` asks for one. Raises OSError.
    """
    if html is None and not can_write():
        return
    run = demo_timeline(result, settings)
    for path in [result.plan.report, *([] if html is None else [html])]:
        write_page(
            path,
            render(
                [run],
                title="rebalancer demo",
                made_by=f"rebalancer demo --seed {result.plan.seed}",
                steps=_NEXT_STEPS if result.balanced else (),
            ),
        )


def demo_timeline(result: Result, settings: Settings) -> Timeline:
    """The run as a timeline. Traffic is the model's base rate, without the noise of single
    rounds.
    """
    world = skewed_cluster(CLUSTER, result.plan.seed, BUNDLES).world
    _, traffic = world.lasting(0)
    rates = dict(zip(world.names, traffic.T.tolist(), strict=True))
    brokers = [world.fleet.names[broker] for broker in world.ownership.owner.tolist()]
    owners: dict[str, str | None] = dict(zip(world.names, brokers, strict=True))
    engine = settings.engine
    tracer = Tracer(
        Timeline(
            title=f"demo: {engine.strategy}",
            kind="simulated",
            strategy=f"{engine.strategy}/{engine.mode}",
            placement=placement_of(engine)[0],
            goal=result.goal.text,
            seed=result.plan.seed,
            interval_ms=engine.round.interval_ms,
            settings=shown_settings(settings),
        )
    )
    moved = {name: rate[2] + rate[3] for name, rate in rates.items()}
    for step in result.steps:
        tracer.round(
            step.round,
            step.commands,
            result.goal.reached(step.round),
            _measured(owners, rates),
            moved,
        )
        for outcome in step.outcomes:
            tracer.outcome(outcome)
            if outcome.status == "applied":
                owners[outcome.bundle] = outcome.owner_after
    return tracer.timeline(result.bundles)


def _measured(owners: dict[str, str | None], rates: dict[str, list[float]]) -> dict[str, Measured]:
    sums: dict[str, tuple[float, float]] = {}
    for bundle, broker in owners.items():
        if broker is not None:
            messages, data = sums.get(broker, (0.0, 0.0))
            rate = rates[bundle]
            sums[broker] = (messages + rate[0] + rate[1], data + rate[2] + rate[3])
    return {broker: Measured(messages, data) for broker, (messages, data) in sums.items()}


def optimum_text(bounds: Certificate) -> str:
    """`the spread of recent samples is 6.2 points, and no assignment of whole bundles has one more
    than 1.2 points smaller`; empty if nothing of this is proven.
    """
    if bounds.gap is None or not proves_bound(bounds):
        return ""
    how_much = "a smaller one"
    if bounds.gap >= NOTHING:
        how_much = f"one more than {figure(100 * bounds.gap)} points smaller"
    return (
        f"the spread of recent samples is {figure(100 * bounds.spread)} points, and no assignment "
        f"of whole bundles has {how_much}"
    )


def least_text(bounds: Certificate) -> str:
    """`moved 340.0 MB/s, and no plan reaches its spread with less than 310.0 MB/s`; empty if
    nothing moved or the bound was not computed.
    """
    if not bounds.moved or not bounds.least_to_move:
        return ""
    return (
        f"moved {data_rate(bounds.moved)}, and no plan reaches its spread with less than "
        f"{data_rate(bounds.least_to_move)}"
    )
