"""Accepts or refuses what a person asks for about one bundle: a move, or a split."""

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

from strategies.bundles import KeyRange, hexadecimal, is_system_bundle, parse_bundle
from strategies.cluster.asked_by_hand import Asked, AskedSplit
from strategies.cluster.intent_records_and_states import Intent
from strategies.cluster.remembered_intents import Intents, with_asked
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.fold.intent_refusals import Answer, IntentFleet, IntentRefusal, refuse_unfit
from strategies.splitting.bundle_limits import AT_POSITIONS, Algorithm

#: Pulsar's algorithms by name.
_ALGORITHMS: Sequence[str] = get_args(Algorithm)


def accept_by_hand(intents: Intents, fleet: IntentFleet, intent: Intent, now_ms: int) -> Answer:
    """Adds a move or a split to the intents, or refuses it."""
    is_split = intent.action == "split"
    why = (
        _refuse_bundle(intents, intent, now_ms)
        or (_refuse_cut(intent) if is_split else None)
        or _refuse_destination(intents, fleet, intent)
    )
    if why is not None:
        return why
    cut = AskedSplit()
    if is_split:
        algorithm = AT_POSITIONS if intent.positions else intent.algorithm
        cut = AskedSplit(algorithm, intent.positions, intent.moves_children)
    asked = Asked(
        intent.id,
        intent.bundle or "",
        intent.broker,
        intent.by,
        intent.reason,
        intent.ts,
        now_ms,
        action="split" if is_split else "move",
        cut=cut,
    )
    return with_asked(intents, asked)


def _refuse_bundle(intents: Intents, intent: Intent, now_ms: int) -> IntentRefusal | None:
    if is_system_bundle(intent.bundle or ""):
        return IntentRefusal(
            "system-bundle",
            f"{intent.bundle} belongs to its broker, whose health Pulsar checks with it",
            "Nothing to do: another broker has a bundle of its own.",
        )
    other = intents.asked.get(intent.bundle or "")
    if other is None:
        return None
    return IntentRefusal(
        "already-asked",
        f"{other.by} asked to {other.action} it {age(now_ms - other.asked_ms)} ago "
        f"({other.reason})",
        "Wait until that has ended: `rebalancer intents` shows its progress.",
    )


def _refuse_destination(
    intents: Intents, fleet: IntentFleet, intent: Intent
) -> IntentRefusal | None:
    to = intent.broker
    if to is None:
        return None
    if intent.action == "split" and not intent.moves_children:
        return IntentRefusal(
            "children-stay",
            f"{to} is a destination, but the children of {intent.bundle} stay where it is",
            "Ask for their move too, or name no broker.",
        )
    if to in intents.drains:
        return IntentRefusal(
            "being-drained",
            f"{to} is being drained: {intents.drains[to].by} asked for it",
            f"Name another broker, or end the drain with `rebalancer undrain {to}`.",
        )
    return refuse_unfit(to, fleet)


def _refuse_cut(intent: Intent) -> IntentRefusal | None:
    bundle, parsed = intent.bundle or "", parse_bundle(intent.bundle or "")
    if parsed is None or not parsed[1].can_split:
        return IntentRefusal(
            "not-divisible",
            f"{bundle} has no range that can be cut",
            "Write the name as tenant/namespace/0x…_0x….",
        )
    return _refuse_algorithm(intent) or _refuse_positions(parsed[1], intent)


def _refuse_algorithm(intent: Intent) -> IntentRefusal | None:
    name = intent.algorithm
    if name is None or (name in _ALGORITHMS and (name == AT_POSITIONS) == bool(intent.positions)):
        return None
    if name not in _ALGORITHMS:
        return IntentRefusal(
            "unknown-algorithm",
            f"Pulsar has no split algorithm {name}",
            f"Its algorithms: {', '.join(_ALGORITHMS)}.",
        )
    return IntentRefusal(
        "algorithm-and-positions",
        f"only {AT_POSITIONS} has positions, and it finds none itself",
        "Name either positions, or another algorithm.",
    )


def _refuse_positions(range_: KeyRange, intent: Intent) -> IntentRefusal | None:
    edges = (range_.lower, *intent.positions, range_.upper)
    wrong = next(((one, other) for one, other in pairwise(edges) if one >= other), None)
    if wrong is None:
        return None
    one, other = map(hexadecimal, wrong)
    return IntentRefusal(
        "positions-outside",
        f"{other} is not above {one}: positions ascend, inside of {range_}",
        "Name ascending positions above the start of the bundle's range and below its end.",
    )
