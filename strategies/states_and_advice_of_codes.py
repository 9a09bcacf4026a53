"""What a reason code means to an operator: the state of a round that it decides, and what to do.

A code's meaning stands beside the rule that gives it, in `MEANINGS` of its module or, for the codes
of one strategy, in the strategy's entry of the registry. Of all codes of a round, the one with the
lowest rank decides. Ranks have gaps, so that new codes fit in between; `tests/golden/reasons.txt`
lists all codes in this order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

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

#: What to do, of codes in several modules.
NOTHING = "Nothing to do."
NEXT_ROUNDS = "Nothing to do: the next rounds decide."
CHECK_COLLECTOR = (
    "Check with `rebalancer doctor` that `rebalancer collect` runs and reaches every broker."
)
CHECK_POLICIES = "Check the isolation and anti-affinity policies of the namespace, or add brokers."
CHECK_FILTERS = "Check filters.* and the brokers that the reason names."
CHANGE_SETTING = "Change the setting that the reason names, if these bundles may move."
SPLIT_BUNDLES = "Split large bundles, or give their topics more partitions."
OTHER_LOAD = (
    "Look for load that does not come from bundles, such as other processes on the machine."
)
ADD_BROKERS = "Add brokers, or reduce the traffic."


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code means. Without a state, it only accompanies other codes."""

    code: str
    state: StateCode | None = None
    #: The lowest of a round decides its state.
    rank: int = 0
    #: What to do, as a sentence.
    advice: str = ""
    #: Of brokers that are due and whose bundles all stay: the skips of these bundles say why.
    asks_bundles: bool = False
    #: Of a single bundle, and speaks for the whole round.
    speaks_for_round: bool = False


#: Code → its meaning.
Meanings = Mapping[str, Meaning]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a bundle stays, or why a broker must not take it: a code, and a text that
    continues a sentence starting with its name.
    """

    code: str
    text: str


#: Broker → why it must not take a bundle.
Refusals = Mapping[str, Refusal]
