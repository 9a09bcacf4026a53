"""`rebalancer undo`: moves the bundles of a round back to where they were."""

from dataclasses import replace
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.cli.by_hand import MoveOptions, ask_moves, present_session
from pulsar_rebalancer.cli.intent_session import in_groups
from pulsar_rebalancer.decisions.intents import IntentError
from pulsar_rebalancer.decisions.plans import Plan, PlanError, plan_named, plans_of, read_plans
from pulsar_rebalancer.decisions.undo import applied_moves, way_back
from sinks.graceful_stop import wall_clock_ms


def undo(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ROUND|PLAN",
            help="Number of the round, or id of its plan; default: the newest with moves.",
        ),
    ] = None,
    *,
    reason: Annotated[str | None, options.REASON] = None,
    by: options.Who = None,
    yes: options.Yes = False,
    no_wait: options.NoWait = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Move the bundles of a round back to where they were, those that are still where the round
    moved them. Splits stay.

    As `move`: shows what would happen, asks, and waits; the same exit codes.
    """
    settings = options.settings(config, overrides)
    with present_session(settings, cluster, by, reason or "undo") as (opened, present):
        log = read_plans(settings.connections).of(opened.cluster)
        plan = _plan_to_undo(plans_of(log, wall_clock_ms()), name, opened.cluster)
        session = replace(opened, reason=reason or f"undo of round {plan.round}")
        found = {
            command.bundle: way_back(command, done, present)
            for command, done in applied_moves(plan)
        }
        moves = [(bundle, to) for bundle, (to, _) in found.items() if to is not None]
        stays = {bundle: f"stays: {why}" for bundle, (to, why) in found.items() if to is None}
        for bundles, why in in_groups(stays.items()):
            console.progress(f"{bundles} {why}")
        if not moves:
            raise IntentError(f"no bundle of round {plan.round} can go back. Nothing has changed.")
        ask_moves(session, present, moves, MoveOptions(yes, no_wait, as_json))


def _plan_to_undo(plans: list[Plan], name: str | None, cluster: str) -> Plan:
    """The plan with this id or number of round, by default the newest one with moves that an
    executor has applied. Raises PlanError.
    """
    if name is not None and name.isdecimal():
        plans = [one for one in plans if one.round == int(name)]
    elif name is not None:
        plans = [plan_named(plans, name, cluster)]
    found = next((one for one in plans if applied_moves(one)), None)
    if found is None:
        what = "no round" if name is None else f"no round or plan {name}"
        raise PlanError(
            f"{what} of {cluster} has moves that an executor has applied; `rebalancer plans list` "
            "shows the newest ones"
        )
    return found
