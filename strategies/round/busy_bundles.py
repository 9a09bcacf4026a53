"""Finds the broker of a bundle that a person names, and refuses bundles that move or are split."""

from collections.abc import Mapping

from strategies.cluster.asked_by_hand import Asked
from strategies.cluster.cluster_state import Order
from strategies.cluster.model import BrokerLoad, Decision
from strategies.round.round_input_and_digest import RoundInput
from strategies.states_and_advice_of_codes import Meaning, Refusal

UNKNOWN_BUNDLE = Refusal("unknown-bundle", "is in the report of no broker with fresh figures")
#: The reason codes of this module.
MEANINGS = (
    Meaning("unknown-bundle", advice="Check the name, and that `rebalancer collect` runs."),
)


def broker_of(asked: Asked, brokers: Mapping[str, BrokerLoad]) -> str | None:
    """Returns the broker that serves the bundle; None if no broker with fresh figures does. A child
    without topics is in no report: it is where its parent was, once that broker has reported.
    """
    listed = (name for name, load in brokers.items() if asked.bundle in load.bundles.names)
    before = brokers.get(asked.source)
    is_there = before is not None and (before.reported_at_ms or 0) > asked.asked_ms
    return next(listed, asked.source if is_there else None)


def refuse_busy(
    bundle: str, source: str, round_input: RoundInput, leaving: Mapping[str, Decision]
) -> Refusal | None:
    """Returns the refusal of a bundle that is moving or is being split already; `leaving`: in this
    round.
    """
    if bundle in round_input.under_way:
        source = round_input.under_way[bundle].source
        return Refusal("already-leaving", f"is on its way from {source} already")
    gained, other = round_input.state.gained.get(bundle), leaving.get(bundle)
    if gained is not None and gained.broker != source:
        return Refusal("on-two-brokers", f"is reported by {gained.broker} too: it is moving")
    if other is not None and other.source == source:
        return Refusal("already-leaving", "leaves its broker in this round already")
    if other is not None:
        return Refusal("on-two-brokers", f"is reported by {other.source} too: it is moving")
    order = order_of(bundle, round_input)
    if order is not None and order.throughput is None:
        return Refusal("being-split", "has a command to split already")
    return None


def order_of(bundle: str, round_input: RoundInput) -> Order | None:
    """Returns the command about a bundle that has no outcome and may still be carried out."""
    order = round_input.state.orders.get(bundle)
    return None if order is None or round_input.now_ms >= order.expires_at_ms else order
