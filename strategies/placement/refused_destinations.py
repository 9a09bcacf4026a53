"""What the search for a destination answers: the decision with its destination, or why there is
none.
"""

from collections.abc import Sequence
from dataclasses import replace

from strategies.bundles import namespace_of
from strategies.cluster.model import Decision, Skip
from strategies.filters.filter_input_and_result import Allowed
from strategies.placement.contract import Placement
from strategies.states_and_advice_of_codes import CHECK_FILTERS, Meaning, Refusal

#: Code of brokers that are being drained, as destinations and in a round's skips.
BEING_DRAINED = "being-drained"
NOT_THERE = Refusal("not-there", "is not among the brokers of this round")
#: The reason codes of this module.
MEANINGS = (
    Meaning(NOT_THERE.code, "not-allowed", 490, CHECK_FILTERS),
    Meaning("no-destination", "not-allowed", 500, CHECK_FILTERS),
    Meaning(BEING_DRAINED),
)


def as_decided(decision: Decision, allowed: Allowed) -> Decision | Skip:
    """Checks a destination that the extensible load manager chose while shedding."""
    if decision.destination is None:
        elsewhere = [broker for broker in allowed.brokers if broker != decision.source]
        return decision if elsewhere else skip(decision, nowhere(allowed))
    if decision.destination in allowed.brokers:
        return decision
    refusal = allowed.refused.get(decision.destination, NOT_THERE)
    return skip(
        decision,
        Refusal(refusal.code, f"was meant for {decision.destination}, which {refusal.text}"),
    )


def answer(decision: Decision, placement: Placement, allowed: Allowed) -> Decision | Skip:
    """The decision with the placement's broker and its reason, or why it found none."""
    if placement.chosen is None:
        return skip(
            decision,
            nowhere(allowed)
            if placement.code == "no-candidates"
            else Refusal(placement.code, placement.text),
        )
    text = (
        f"{decision.text}; {instead(decision, placement.chosen, allowed)}{placement.chosen} "
        f"{placement.text}"
    )
    evidence = {**decision.evidence, **placement.evidence, "placement": placement.code}
    return replace(decision, destination=placement.chosen, text=text, evidence=evidence)


def instead(decision: Decision, chosen: str, allowed: Allowed) -> str:
    """Explains why the bundle does not go to the broker that shedding named; empty if shedding
    named none.
    """
    refusal = (
        None
        if decision.destination is None or decision.destination == chosen
        else allowed.refused.get(decision.destination)
    )
    return "" if refusal is None else f"{decision.destination} {refusal.text}, but "


def nowhere(allowed: Allowed) -> Refusal:
    """Why no broker may take the bundle, as numbers of brokers per reason."""
    return Refusal("no-destination", f"may go to no broker: {allowed.summary()}")


def nowhere_at_all(allowed: Allowed) -> Refusal:
    """Why no broker may take the bundle: the reason of all of them, or their numbers."""
    others = {
        name: why
        for name, why in allowed.refused.items()
        if why.code not in ("source", BEING_DRAINED)
    }
    codes = {why.code for why in others.values()}
    if len(codes) != 1:
        return nowhere(allowed)
    why = next(iter(others.values()))
    return Refusal(why.code, f"may go to no broker: {next(iter(others))} {why.text}")


def skip(decision: Decision, refusal: Refusal) -> Skip:
    """The bundle of the decision stays."""
    return Skip("bundle", (decision.bundle,), refusal.code, f"it {refusal.text}", decision.source)


def exchanged_with(decision: Decision, together: Sequence[Decision]) -> frozenset[str]:
    """The destination, if it gives at least as many bundles of the namespace for those it takes."""
    if decision.destination is None:
        return frozenset()
    ends = decision.source, decision.destination
    same = [one for one in together if namespace_of(one.bundle) == namespace_of(decision.bundle)]
    there = sum((one.source, one.destination) == ends for one in same)
    back = sum((one.destination, one.source) == ends for one in same)
    return frozenset([decision.destination] if back >= there > 0 else [])
