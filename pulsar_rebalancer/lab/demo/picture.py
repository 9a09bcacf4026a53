"""The report of a demo run. The cluster is modelled, so the traffic of each bundle is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pulsar_rebalancer.lab.demo.plan import BUNDLES
from pulsar_rebalancer.lab.demo.result import Result
from pulsar_rebalancer.lab.report.page import render, write_page
from pulsar_rebalancer.lab.report.settings import shown_settings
from pulsar_rebalancer.lab.report.verdict import NextStep
from pulsar_rebalancer.lab.simulation.clusters.skewed import skewed_cluster
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from pulsar_rebalancer.lab.simulation.tracing import Measured, Tracer
from pulsar_rebalancer.settings.load import Settings
from strategies.fold.engine import placement_of

_NEXT_STEPS = (
    NextStep(
        "See another cluster, or another strategy:",
        "rebalancer demo --seed 2 --strategy threshold",
    ),
    NextStep(
        "Analyse your own cluster without changing it: collect its load reports, then replay them."
    ),
)


def write_demo_report(paths: Sequence[Path], result: Result, settings: Settings) -> None:
    """Writes the report to each path. Raises SettingsError if plotly is missing, and OSError."""
    run = demo_timeline(result, settings)
    for path in paths:
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
    world = skewed_cluster(result.plan.cluster, result.plan.seed, BUNDLES).world
    _, traffic = world.lasting(0)
    rates = dict(zip(world.names, traffic.T.tolist(), strict=True))
    brokers = [world.fleet.names[broker] for broker in world.ownership.owner.tolist()]
    owners: dict[str, str | None] = dict(zip(world.names, brokers, strict=True))
    engine = settings.engine
    tracer = Tracer(
        title=f"demo: {engine.strategy}",
        kind="simulated",
        strategy=f"{engine.strategy}/{engine.mode}",
        placement=placement_of(engine)[0],
        goal=result.goal.text,
        seed=result.plan.seed,
        interval_ms=engine.round.interval_ms,
        settings=shown_settings(settings),
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
