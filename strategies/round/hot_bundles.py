"""Says more about hot bundles whose topics a round knows: where a split cuts one, what its children
carry and which one is to leave, and what helps where no split does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from strategies.bundles import hexadecimal, parse_bundle
from strategies.cluster.model import ClusterView, Decision, Scalar, Skip
from strategies.cluster.topics_of_bundle import TopicsOfBundle
from strategies.dispatch_limits.hot_topic_text import hot_topic_text
from strategies.figures.usage_after_moves import Estimate, share_of_traffic
from strategies.round.commands_and_record import DecidedAction
from strategies.round.round_input_and_digest import Rules
from strategies.splitting.bundle_limits import AT_POSITIONS, BY_TRAFFIC
from strategies.splitting.cut_by_traffic import Cut, cut_at, even_cut

#: Codes of skips of bundles that are too hot and can be neither moved nor split.
_TOO_HOT = ("bundle-too-large", "not-divisible", "namespace-full", "no-boundary")


#: Number of the child (0 = lower) that is to leave, its destination, and the usages (fractions) of
#: source and destination after it.
_Leaving = tuple[int, str, float, float]


@dataclass(frozen=True, slots=True)
class HotBundles:
    """The topics that are known in a round. `estimate`: usages after the moves of the round;
    `view`: the brokers that may take bundles.
    """

    topics: Mapping[str, TopicsOfBundle]
    estimate: Estimate
    view: ClusterView
    rules: Rules

    def split(self, decision: Decision) -> DecidedAction:
        """Returns the split of a bundle. Without topics, and with Pulsar's own rules, the broker
        finds the boundary, and nothing is predicted.
        """
        algorithm = self.rules.splitting.algorithm
        plain = DecidedAction("split", decision, algorithm=algorithm)
        known, parsed = self.topics.get(decision.bundle), parse_bundle(decision.bundle)
        if known is None or parsed is None or not self.rules.by_mode.advises:
            return plain
        range_, by_messages = parsed[1], decision.code == "msg-rate"
        if algorithm in BY_TRAFFIC:
            cut = even_cut(known, range_, by_messages=by_messages)
        elif algorithm == "range_equally_divide":
            cut = cut_at(known, range_, range_.middle, by_messages=by_messages)
        else:
            return plain
        if cut is None:
            return plain
        children = [f"{parsed[0]}/{part}" for part in range_.parts([cut.boundary])]
        named = self._named(decision, cut, children)
        if algorithm not in BY_TRAFFIC:
            return replace(plain, decision=named)
        return replace(
            plain,
            decision=named,
            algorithm=AT_POSITIONS,
            boundaries=(cut.boundary,),
        )

    def advise(self, order: DecidedAction) -> DecidedAction:
        """Adds what is known of the bundle's topics to the advice of a dispatch limit."""
        text = f"{order.decision.text}{self._more_about(order.decision.bundle)}"
        return replace(order, decision=replace(order.decision, text=text))

    def explain(self, skip: Skip) -> Skip:
        """Adds what is known of its topics to the skip of a bundle that is too hot."""
        if skip.code not in _TOO_HOT or len(skip.names) != 1:
            return skip
        return replace(skip, text=f"{skip.text}{self._more_about(skip.names[0])}")

    def _more_about(self, bundle: str) -> str:
        known = self.topics.get(bundle)
        text = known and hot_topic_text(known, self.rules.throttling.max_partition_mb)
        return f"; {text}" if text else ""

    def _named(self, decision: Decision, cut: Cut, children: list[str]) -> Decision:
        """Adds what the children are to carry, and which one is to leave, to a decision."""
        lower, upper = cut.shares
        evidence: dict[str, Scalar] = {
            **decision.evidence,
            "boundary": hexadecimal(cut.boundary),
            "lower_share": lower,
            "upper_share": upper,
        }
        text = (
            f"{decision.text}; cut at {hexadecimal(cut.boundary)}, {children[0]} is to carry "
            f"{100 * lower:.0f} % of its traffic and {children[1]} {100 * upper:.0f} %"
        )
        leaving = self._leaving(decision, cut)
        if leaving is None:
            text += (
                f"; no broker that may take one of them would be less full than {decision.source}"
            )
            return replace(decision, text=text, evidence=evidence)
        index, broker, source_after, broker_after = leaving
        evidence |= {"leaves": children[index], "destination": broker}
        text += (
            f"; {children[index]} is then to move to {broker}, which leaves {decision.source} at "
            f"{100 * source_after:.1f} % and {broker} at {100 * broker_after:.1f} %"
        )
        return replace(decision, text=text, evidence=evidence)

    def _leaving(self, decision: Decision, cut: Cut) -> _Leaving | None:
        """Returns the child whose move makes the fuller of both brokers least full; None if no move
        helps. The destination is the emptiest broker that may take the bundle.
        """
        estimate, source = self.estimate, decision.source
        loads = {broker.broker: broker for broker in self.view.brokers}
        taking = self.view.takers(decision.bundle, source) if self.view.takers else ()
        brokers = [name for name in taking if name != source and not loads[name].settling]
        if not brokers:
            return None
        emptiest = min(brokers, key=lambda name: (estimate.usage(name), name))
        load = share_of_traffic(loads[source], decision.bundle)
        moves = [
            (
                index,
                emptiest,
                estimate.usage_with(source, source, -load * share),
                estimate.usage_with(emptiest, source, load * share),
            )
            for index, share in enumerate(cut.shares)
        ]
        best = min(moves, key=lambda move: (max(move[2:]), move[0]))
        return best if max(best[2:]) < estimate.usage(source) else None
