"""Which moves of a round can be undone, and where their bundles go back to."""

from pulsar_rebalancer.decisions.plans import Plan
from pulsar_rebalancer.decisions.preview import PresentCluster
from strategies.cluster.model import Command, Outcome


def applied_moves(plan: Plan) -> list[tuple[Command, Outcome]]:
    """The moves of a plan that an executor has applied, with their outcomes."""
    return [
        (one.command, one.outcome)
        for one in plan.commands
        if one.command.is_move and one.outcome is not None and one.outcome.status == "applied"
    ]


def way_back(command: Command, outcome: Outcome, present: PresentCluster) -> tuple[str | None, str]:
    """The broker to which a bundle goes back; None and the reason if it does not."""
    source = outcome.owner_before or command.source
    now = present.bundles.get(command.bundle)
    if now is None:
        return None, "no report lists it any more: it may have been split"
    if outcome.ts > present.newest.ts:
        return None, "no round has seen it on its new broker yet; try again after the next one"
    if now.broker == source:
        return None, f"{source} serves it again"
    if now.broker != (outcome.owner_after or command.destination):
        return None, f"{now.broker} serves it now, where it has moved since"
    return source, ""
