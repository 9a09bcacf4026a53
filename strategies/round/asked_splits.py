"""Decides which bundles a round splits because a person asked for it. Cool-downs,
`limits.excluded_namespaces` and `splitting.max_bundles` hold back splits for the sake of balance
only; a namespace that is full is named in the command.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strategies.bundles import namespace_of
from strategies.cluster.asked_by_hand import BY_HAND, Asked
from strategies.cluster.model import ClusterView, Decision
from strategies.round.busy_bundles import UNKNOWN_BUNDLE, broker_of, refuse_busy
from strategies.round.commands_and_record import DecidedAction
from strategies.round.drain_step import DrainStep
from strategies.round.round_input_and_digest import RoundInput
from strategies.splitting.due import SplitRules
from strategies.states_and_advice_of_codes import Refusal


@dataclass(frozen=True, slots=True)
class AskedSplits:
    """The bundles that persons asked to split."""

    #: Bundle → its split in this round.
    actions: Mapping[str, DecidedAction] = field(default_factory=dict)
    #: Bundle that stays whole for now → the reason.
    refused: Mapping[str, Refusal] = field(default_factory=dict)


def asked_splits(
    round_input: RoundInput, view: ClusterView, drained: DrainStep, rules: SplitRules
) -> AskedSplits:
    """Splits what may be split now. `view`: with draining brokers; `drained`: its bundles leave
    their brokers in this round.
    """
    actions, refused = dict[str, DecidedAction](), dict[str, Refusal]()
    brokers, closed = {broker.broker: broker for broker in view.brokers}, rules.closed
    if closed is not None:
        closed = Refusal(closed.code, f"would be split, but {closed.text}")
    for asked in round_input.state.intents.asked.values():
        if asked.action == "move" or not asked.waits:
            continue
        source, why = broker_of(asked, brokers), closed
        if source is not None:
            why = why or refuse_busy(asked.bundle, source, round_input, drained.evacuation.leaving)
        if source is not None and why is None:
            actions[asked.bundle] = _action(asked, source, rules)
        else:
            refused[asked.bundle] = why or UNKNOWN_BUNDLE
    return AskedSplits(actions, refused)


def _action(asked: Asked, source: str, rules: SplitRules) -> DecidedAction:
    namespace = namespace_of(asked.bundle)
    number, most = rules.bundles_in(namespace), rules.settings.max_bundles
    text = f"{asked.by} asked for it ({asked.reason})"
    if number >= most:
        text += f"; {namespace} has {number} bundles already, splitting.max_bundles = {most}"
    decision = Decision(asked.bundle, source, None, BY_HAND, text, {"intent": asked.id})
    algorithm = asked.cut.algorithm or rules.settings.algorithm
    return DecidedAction("split", decision, algorithm, asked.cut.positions)
