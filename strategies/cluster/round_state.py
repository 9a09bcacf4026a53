"""Derives the state of a round: what it amounts to, in one code, one sentence and what to do.

Each round has exactly one state. It comes from the commands and skips of the round alone, so that
the reason and the decision are the same (decision 0222).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:  # the model of a round has its state
    from strategies.cluster.model import Skip

StateCode = Literal[
    "acting",
    "set-aside",
    "blind",
    "yielding",
    "not-allowed",
    "waiting",
    "cannot-help",
    "balanced",
]
STATES: tuple[StateCode, ...] = get_args(StateCode)

_NOTHING = "Nothing to do."
_NEXT = "Nothing to do: the next rounds decide."
_SAMPLES = (
    "Wait for three reports of each broker; if it lasts, check with `rebalancer doctor` how often "
    "brokers report, and find what keeps changing their bundles."
)
_UNEXPLAINED = (
    "Wait; if it lasts, look for load that does not come from bundles, such as other processes on "
    "the machine."
)
_UNDER_WAY = (
    "Wait; if it lasts, check with `rebalancer status` whether a plan waits for approval, and that "
    "an executor applies commands."
)
_COLLECT = "Check with `rebalancer doctor` that `rebalancer collect` runs and reaches every broker."
_POLICIES = "Check the isolation and anti-affinity policies of the namespace, or add brokers."
_FILTERS = "Check filters.* and the brokers that the reason names."
_SPLIT = "Split large bundles, or give their topics more partitions."
_LOWER = "Lower the minimum that the reason names, if such small moves are worth an interruption."
_SETTING = "Change the setting that the reason names, if these bundles may move."
_OUTSIDE = "Look for load that does not come from bundles, such as other processes on the machine."
_MEASURE = "Set what the reason names."
_REJECTED = "Look at the rejected topic: its rows say what is wrong with the broker's reports."
_COMMON = "Set what the skips of the round name, so that one resource is measured everywhere."
_EXCLUDED = "Remove the namespace from limits.excluded_namespaces, if its bundles may move."
_BROKERS = "Add brokers, or reduce the traffic."
_RAISED = (
    "Correct the strategy, if it is one of your own; otherwise report the sentence. Each round "
    "tries again."
)
_QUOTA = (
    "Find what sends these records (the rejected topic names their positions), or "
    "raise bulkhead.*. The next minute has a new quota."
)
_RIVAL = (
    "Stop what moves bundles: switch Pulsar's own shedder off (`rebalancer doctor`), or end the "
    "script; rounds act again by themselves."
)

#: State, and skip code → what to do. The first code in this order that a round has decides.
_PRECEDENCE: tuple[tuple[StateCode, Mapping[str, str]], ...] = (
    ("set-aside", {"rule-raised": _RAISED, "over-quota": _QUOTA}),
    ("yielding", {"yielding": _RIVAL, "rounds-yield": _RIVAL}),
    (
        "not-allowed",
        {
            "outside-window": "Wait for the next window, or change limits.windows.",
            "budget": "Wait, or raise the limit that the reason names.",
            "namespace-full": "Raise splitting.max_bundles, if the namespace may have more.",
            "enough-splits": "Wait, or raise splitting.max_splits.",
            "policies-hold": _POLICIES,
            "no-broker-by-policy": _POLICIES,
            "anti-affinity-even": _POLICIES,
            "anti-affinity": _POLICIES,
            "failure-domain": _POLICIES,
            "isolation-unreadable": "Correct the isolation policy that the reason names.",
            "isolation-outside": _POLICIES,
            "isolation-standby": _POLICIES,
            "isolation-reserved": _POLICIES,
            "topics-not-served": "Enable these topics on more brokers.",
            "too-many-topics": "Raise filters.max_topics, or add brokers.",
            "uneven": "Set filters.distribute_evenly = false, if load matters more than numbers.",
            "draining": "Wait until the broker has shut down, or add brokers.",
            "older-version": "Upgrade the brokers, or set filters.prefer_later_versions = false.",
            "other-load-manager": "Check filters.load_manager.",
            "not-there": _FILTERS,
            "no-destination": _FILTERS,
            "only-source": _FILTERS,
        },
    ),
    (
        "waiting",
        {
            "waiting-for-hits": _NEXT,
            "waiting-for-samples": _SAMPLES,
            "waiting-for-moves": _NEXT,
            "load-comes-and-goes": _NEXT,
            "moves-did-not-help": "Check the outcomes of the last commands: `rebalancer explain`.",
            "cooling-down": _NEXT,
            "moved-by-others": _NEXT,
            "resting": _NEXT,
            "on-two-brokers": _NEXT,
            "already-leaving": _NEXT,
            "being-split": _NEXT,
            "already-fell": _NEXT,
            "settling": _NEXT,
            "others-measured": _NEXT,
        },
    ),
    (
        "cannot-help",
        {
            "cluster-full": _BROKERS,
            "bundle-too-large": _SPLIT,
            "load-without-bundles": _OUTSIDE,
            "coarse-bundles": _SPLIT,
            "not-worth-it": _NOTHING,
            "no-better-plan": _SPLIT,
            "sole-bundle": _SPLIT,
            "too-few-bundles": _SPLIT,
            "no-bundles": _OUTSIDE,
            "too-little-traffic": _LOWER,
            "too-few-brokers": "Add brokers, or check limits.excluded_brokers.",
            "nobody-to-take": _BROKERS,
            "no-relief": _SPLIT,
            "would-overload": _BROKERS,
            "all-overloaded": _BROKERS,
            "source": _FILTERS,
            "placed-on-source": "Set shedding.mode = fixed, which looks for another broker.",
            "unknown-broker": _COLLECT,
            "no-bundle-figures": "Check that brokers report bundles, and what keeps them.",
            "too-big": _SPLIT,
            "does-not-fit": _SPLIT,
        },
    ),
    (
        "not-allowed",
        {
            "excluded-namespace": _EXCLUDED,
            "has-policies": _SETTING,
            "enough-for-one-round": _SETTING,
            "counts-on": _FILTERS,
            "exchange": _FILTERS,
        },
    ),
    (
        "cannot-help",
        {
            "not-divisible": _SPLIT,
            "no-boundary": "Check splitting.algorithm.",
            "nothing-fits": _SPLIT,
            "nothing-may-leave": _SPLIT,
            "idle": _OUTSIDE,
            "system-bundle": _OUTSIDE,
        },
    ),
    (
        "balanced",
        {
            "even": _NOTHING,
            "close-together": _NOTHING,
            "below-threshold": _NOTHING,
            "not-overloaded": _NOTHING,
            "nobody-below": _NOTHING,
            "no-load": _NOTHING,
            "not-needed": _NOTHING,
            "not-at-the-ends": _NOTHING,
            "not-the-busiest": _NOTHING,
            "not-among-the-heaviest": _NOTHING,
        },
    ),
    (
        "blind",
        {
            "nobody-to-judge": _COLLECT,
            "outdated": _COLLECT,
            "unusable-figures": _COLLECT,
            "reports-rejected": _REJECTED,
            "nothing-measured": _MEASURE,
            "nothing-in-common": _COMMON,
        },
    ),
)
#: Codes that only accompany others: alone they decide no state.
SILENT = frozenset(
    {
        "excluded-broker",
        "being-drained",
        "waits-for-drain",
        "roll-halted",
        "resource-not-measured",
        "figures-left-out",
        "clock-ahead",
        "clock-behind",
        "unreadable-policies",
        "isolation-unmatched",
        "more-left-alone",
        "round-shortened",
    }
)
#: Those about the policies of a cluster, which may be why a bundle stays.
ABOUT_POLICIES = frozenset({"unreadable-policies", "isolation-unmatched"})
#: Codes whose sentence says what is missing and what to do, whatever the state is.
TO_MEND = frozenset(
    {"resource-not-measured", "nothing-measured", "figures-left-out", "reports-rejected"}
)
#: Skip code → its state, its rank (the lowest decides) and what to do.
MEANINGS: Mapping[str, tuple[StateCode, int, str]] = {
    code: (state, rank, advice)
    for rank, (code, state, advice) in enumerate(
        (code, state, advice) for state, codes in _PRECEDENCE for code, advice in codes.items()
    )
}
#: Codes of brokers that are due and whose bundles all stay: the skips of these bundles say why.
_SEE_BUNDLES = frozenset({"nothing-fits", "nothing-may-leave"})
#: Codes of single bundles that speak for the whole round.
_OF_BUNDLES = frozenset({"bundle-too-large"})
#: Codes of brokers that the strategy cannot judge.
_NOT_JUDGED = frozenset({"unusable-figures", "outdated", "nothing-measured", "reports-rejected"})
_LEADS: Mapping[StateCode, str] = {
    "set-aside": "no rule could judge the cluster",
    "blind": "the brokers cannot be judged",
    "yielding": "something else moves bundles, and rounds yield to it",
    "not-allowed": "a move or split is due, but none is allowed",
    "waiting": "it is too early to move anything",
    "cannot-help": "moving bundles cannot help",
    "balanced": "nothing has to move",
}
#: States of the cluster as it will be, while commanded moves count as done.
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
class RoundState:
    """What a round amounts to. `text`: a sentence for people, with the code of the deciding skip in
    brackets; `advice`: what to do, as a sentence.
    """

    code: StateCode
    text: str
    advice: str

    @property
    def line(self) -> str:
        """`state waiting: it is too early to move anything: … [waiting-for-hits]. Nothing to do`"""
        return f"state {self.code}: {self.text}. {self.advice}"


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """What a round has decided. `actions`: of its commands; `brokers`: those that take part;
    `stale`: brokers without fresh figures, with the reason; `usage`: fraction per broker;
    `skips`: of screening and shedding; `refused`: of selected bundles that stay; `under_way`:
    number of commanded moves that `usage` counts as done and that reports do not show yet.
    """

    actions: Sequence[str]
    brokers: Sequence[str]
    stale: Mapping[str, str]
    usage: Mapping[str, float]
    skips: Sequence[Skip]
    refused: Sequence[Skip] = ()
    under_way: int = 0


def state_of(facts: RoundFacts) -> RoundState:
    """The state of a round. Deterministic; codes that the product does not know count as
    `waiting`.
    """
    if facts.actions:
        return _acting(facts.actions)
    state = _blind(facts) or _decided(facts)
    left_out = len(facts.stale)
    if not left_out or state.code == "blind":
        return state
    brokers = "1 broker has" if left_out == 1 else f"{left_out:,} brokers have"
    kind = "usable" if facts.stale.keys() & _lost(facts).keys() else "fresh"
    text = f"{state.text}; {brokers} no {kind} figures"
    return RoundState(state.code, text, state.advice)


def _acting(actions: Sequence[str]) -> RoundState:
    counts = [(count, _COMMANDS[action]) for action, count in sorted(Counter(actions).items())]
    parts = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    text = f"the round has {len(actions)} command{'' if len(actions) == 1 else 's'}: {parts}"
    return RoundState("acting", text, _ADVISED if {*actions} == {"throttle"} else _APPLY)


def _lost(facts: RoundFacts) -> dict[str, Skip]:
    """The brokers that cannot be judged although they report."""
    return {
        name: skip
        for skip in facts.skips
        if skip.code in _NOT_JUDGED and skip.subject == "broker"
        for name in skip.names
    }


def _blind(facts: RoundFacts) -> RoundState | None:
    """The state where fewer than two brokers can be judged, and figures are missing."""
    lost = _lost(facts)
    judged = sum(name not in lost for name in facts.brokers)
    excluded = any(skip.code == "excluded-broker" for skip in facts.skips)
    said = {name: f"{skip.text} [{skip.code}]" for name, skip in lost.items()}
    reasons = {**facts.stale, **said}
    if judged > 1 or not (reasons or (not facts.brokers and not excluded)):
        return None
    if not reasons:
        return RoundState("blind", f"{_LEADS['blind']}: no broker has reported", _COLLECT)
    name = min(reasons)
    text = f"{_LEADS['blind']}: {judged} of {judged + len(reasons)} have usable figures; {name}: "
    advice = MEANINGS[lost[name].code][2] if name in lost else _COLLECT
    return RoundState("blind", f"{text}{reasons[name]}"[:_LONGEST], advice)


def _decided(facts: RoundFacts) -> RoundState:
    """The state by the skip whose code comes first in the precedence."""
    found = [skip for skip in _deciding(facts) if skip.code in MEANINGS]
    if not found:
        return _unknown(facts)
    skip = min(found, key=lambda one: MEANINGS[one.code][1])
    code, _, advice = MEANINGS[skip.code]
    if facts.under_way and code in _PLANNED:
        helpless = f"more moves cannot help [{skip.code}]"
        return _planned(facts.under_way, helpless if code == "cannot-help" else reason_of(skip))
    if code == "balanced" and (why := _doubt(skip, facts)):
        return RoundState("waiting", f"{_LEADS['waiting']}: {why}: {reason_of(skip)}", _UNEXPLAINED)
    return RoundState(code, f"{_LEADS[code]}: {reason_of(skip)}", advice)


def _planned(under_way: int, reason: str) -> RoundState:
    """The state while the strategy judges a cluster as it will be after commanded moves: this
    cluster may need nothing more, but no report shows it yet.
    """
    text = f"{_LEADS['waiting']}: {counted_as_done(under_way)}; with them, {reason}"
    return RoundState("waiting", text, _UNDER_WAY)


def counted_as_done(moves: int) -> str:
    """`2 commanded moves count as done, and reports do not show them yet`"""
    if moves == 1:
        return "1 commanded move counts as done, and reports do not show it yet"
    return f"{moves:,} commanded moves count as done, and reports do not show them yet"


def _deciding(facts: RoundFacts) -> Iterator[Skip]:
    """The skips that may decide. Bundles that a strategy leaves alone say something only where all
    bundles of a broker that is due stay.
    """
    due = {name for skip in facts.skips if skip.code in _SEE_BUNDLES for name in skip.names}
    yield from facts.refused
    for skip in facts.skips:
        if skip.subject != "bundle" or skip.code in _OF_BUNDLES or skip.broker in due:
            yield skip


def _doubt(skip: Skip, facts: RoundFacts) -> str | None:
    """Why a cluster in which the strategy finds no gap is not balanced yet: only the newest usages
    have a gap, while the strategy compares averages or several samples. None if it is balanced.
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


def _unknown(facts: RoundFacts) -> RoundState:
    """The state of a round whose strategy has codes of its own."""
    skip = next((one for one in facts.skips if one.code not in SILENT), None)
    reason = "the strategy gives no reason" if skip is None else reason_of(skip)
    if facts.under_way:
        return _planned(facts.under_way, reason)
    return RoundState("waiting", f"nothing moves in this round: {reason}", _NEXT)


def reason_of(skip: Skip) -> str:
    """The skip in words, with its names unless its sentence has them."""
    names, on = skip.names, f" on {skip.broker}" if skip.broker else ""
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    named = skip.subject == "cluster" or not names or names[0] in skip.text
    about = "" if named else f"{names[0]}{more}{on}: "
    reason = f"{about}{skip.text}"
    return f"{reason if len(reason) <= _LONGEST else reason[:_LONGEST] + '…'} [{skip.code}]"
