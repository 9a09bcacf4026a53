"""Sums up a round in one state: a code, a sentence and the advice to the operator.

Each round has exactly one state. It comes from the commands and skips of the round alone, so that
the reason shown is the reason of the decision (decision 0222).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from strategies.cluster.model import Skip
from strategies.cluster.round_figures import RoundState
from strategies.states_and_advice_of_codes import CHECK_COLLECTOR, NEXT_ROUNDS, Meanings, StateCode

_UNEXPLAINED = (
    "Wait; if it lasts, look for load that does not come from bundles, such as other processes on "
    "the machine."
)
_UNDER_WAY = (
    "Wait; if it lasts, check with `rebalancer status` whether a plan waits for approval, and that "
    "an executor applies commands."
)
_LEADS: Mapping[StateCode, str] = {
    "set-aside": "no rule could judge the cluster",
    "blind": "the brokers cannot be judged",
    "yielding": "something else moves bundles, and rounds yield to it",
    "not-allowed": "a move or split is due, but none is allowed",
    "waiting": "it is too early to move anything",
    "cannot-help": "moving bundles cannot help",
    "balanced": "nothing has to move",
}
#: States that, while commanded moves count as done, describe the cluster after these moves.
_PLANNED = frozenset({"waiting", "cannot-help", "balanced"})
_COMMANDS = {
    "unload": "unload",
    "transfer": "transfer",
    "split": "split",
    "throttle": "advised dispatch limit",
}
_ADVISED = "Set the advised dispatch limits by hand, if they suit: executors do not apply them."
_APPLY = "Nothing to do: executors apply the commands."
#: Maximum characters of a reason; names of brokers and bundles have at most 512.
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """The results of a round from which its state is derived."""

    #: Actions of its commands.
    actions: Sequence[str]
    #: The brokers that take part.
    brokers: Sequence[str]
    #: Broker without fresh figures → the reason.
    stale: Mapping[str, str]
    #: Broker → usage (fraction).
    usage: Mapping[str, float]
    #: Skips of screening and shedding.
    skips: Sequence[Skip]
    #: Meanings of all codes that the round may have.
    meanings: Meanings
    #: Skips of selected bundles that stay.
    refused: Sequence[Skip] = ()
    #: Number of commanded moves that `usage` counts as done and that reports do not show yet.
    under_way: int = 0


def state_of(facts: RoundFacts) -> RoundState:
    """Returns the state of a round. Deterministic. A round whose skips have unknown codes only is
    `waiting`.
    """
    if facts.actions:
        return _acting_state(facts.actions)
    state = _blind_state(facts) or _lowest_ranked_state(facts)
    left_out = len(facts.stale)
    if not left_out or state.code == "blind":
        return state
    brokers = "1 broker has" if left_out == 1 else f"{left_out:,} brokers have"
    kind = "usable" if facts.stale.keys() & _unusable_brokers(facts).keys() else "fresh"
    text = f"{state.text}; {brokers} no {kind} figures"
    return RoundState(state.code, text, state.advice)


def _acting_state(actions: Sequence[str]) -> RoundState:
    counts = [(count, _COMMANDS[action]) for action, count in sorted(Counter(actions).items())]
    parts = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    text = f"the round has {len(actions)} command{'' if len(actions) == 1 else 's'}: {parts}"
    return RoundState("acting", text, _ADVISED if {*actions} == {"throttle"} else _APPLY)


def _unusable_brokers(facts: RoundFacts) -> dict[str, Skip]:
    """Returns broker → skip of the brokers that report, but not what the strategy needs."""
    codes = {code for code, meaning in facts.meanings.items() if meaning.state == "blind"}
    return {
        name: skip
        for skip in facts.skips
        if skip.code in codes and skip.subject == "broker"
        for name in skip.names
    }


def _blind_state(facts: RoundFacts) -> RoundState | None:
    """Returns the state if figures are missing and fewer than two brokers have usable ones."""
    lost = _unusable_brokers(facts)
    usable = sum(name not in lost for name in facts.brokers)
    excluded = any(skip.code == "excluded-broker" for skip in facts.skips)
    lost_reasons = {name: f"{skip.text} [{skip.code}]" for name, skip in lost.items()}
    reasons = {**facts.stale, **lost_reasons}
    if usable > 1 or not (reasons or (not facts.brokers and not excluded)):
        return None
    if not reasons:
        return RoundState("blind", f"{_LEADS['blind']}: no broker has reported", CHECK_COLLECTOR)
    name = min(reasons)
    text = f"{_LEADS['blind']}: {usable} of {usable + len(reasons)} have usable figures; {name}: "
    advice = facts.meanings[lost[name].code].advice if name in lost else CHECK_COLLECTOR
    return RoundState("blind", f"{text}{reasons[name]}"[:_LONGEST], advice)


def _lowest_ranked_state(facts: RoundFacts) -> RoundState:
    """Returns the state of the skip whose code has the lowest rank."""
    ranked = [
        (meaning.rank, skip, meaning.state, meaning.advice)
        for skip in _deciding_skips(facts)
        if (meaning := facts.meanings.get(skip.code)) and meaning.state is not None
    ]
    if not ranked:
        return _state_of_unknown_codes(facts)
    _, skip, code, advice = min(ranked, key=lambda entry: entry[0])
    if facts.under_way and code in _PLANNED:
        helpless = f"more moves cannot help [{skip.code}]"
        return _state_with_planned_moves(
            facts.under_way, helpless if code == "cannot-help" else reason_of(skip)
        )
    if code == "balanced" and (why := _doubt(skip, facts)):
        return RoundState("waiting", f"{_LEADS['waiting']}: {why}: {reason_of(skip)}", _UNEXPLAINED)
    return RoundState(code, f"{_LEADS[code]}: {reason_of(skip)}", advice)


def _state_with_planned_moves(under_way: int, reason: str) -> RoundState:
    """Returns the state while commanded moves count as done: the cluster may need nothing more
    after them, but no report shows them yet.
    """
    text = f"{_LEADS['waiting']}: {describe_planned_moves(under_way)}; with them, {reason}"
    return RoundState("waiting", text, _UNDER_WAY)


def describe_planned_moves(moves: int) -> str:
    """Returns `2 commanded moves count as done, and reports do not show them yet`."""
    if moves == 1:
        return "1 commanded move counts as done, and reports do not show it yet"
    return f"{moves:,} commanded moves count as done, and reports do not show them yet"


def _deciding_skips(facts: RoundFacts) -> Iterator[Skip]:
    """Yields the skips that may decide on the state. Skips of bundles do so only if their broker is
    due to give a bundle, or if their code concerns the whole round.
    """
    asking = {code for code, meaning in facts.meanings.items() if meaning.asks_bundles}
    due = {name for skip in facts.skips if skip.code in asking for name in skip.names}
    speaking = {code for code, meaning in facts.meanings.items() if meaning.speaks_for_round}
    yield from facts.refused
    for skip in facts.skips:
        if skip.subject != "bundle" or skip.code in speaking or skip.broker in due:
            yield skip


def _doubt(skip: Skip, facts: RoundFacts) -> str | None:
    """Returns why a cluster in which the strategy finds no gap does not count as balanced: the
    newest usages have a gap, while the strategy compares averages or several samples. None if they
    have none.
    """
    values, evidence = list(facts.usage.values()), skip.evidence
    if not values:
        return None
    apart = max(values) - min(values)
    if skip.code == "below-threshold":
        above, limit = max(values) - fsum(values) / len(values), evidence.get("threshold_percent")
    else:
        above, limit = apart, evidence.get("lasting_points")
    if not isinstance(limit, int | float) or 100 * above <= limit:
        return None
    return f"the newest usages are {100 * apart:.1f} points apart, which does not count yet"


def _state_of_unknown_codes(facts: RoundFacts) -> RoundState:
    """Returns the state of a round whose skips have no code with a meaning."""
    silent = {code for code, meaning in facts.meanings.items() if meaning.state is None}
    skip = next((candidate for candidate in facts.skips if candidate.code not in silent), None)
    reason = "the strategy gives no reason" if skip is None else reason_of(skip)
    if facts.under_way:
        return _state_with_planned_moves(facts.under_way, reason)
    return RoundState("waiting", f"nothing moves in this round: {reason}", NEXT_ROUNDS)


def reason_of(skip: Skip) -> str:
    """Returns the skip as a phrase: its names unless its text has them, its text and its code."""
    names, on = skip.names, f" on {skip.broker}" if skip.broker else ""
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    has_name = skip.subject == "cluster" or not names or names[0] in skip.text
    about = "" if has_name else f"{names[0]}{more}{on}: "
    reason = f"{about}{skip.text}"
    return f"{reason if len(reason) <= _LONGEST else reason[:_LONGEST] + '…'} [{skip.code}]"
