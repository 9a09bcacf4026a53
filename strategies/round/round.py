"""Runs one round of one cluster, in order: screen, shed, place, split, throttle, number.

Pure: its whole input is `RoundInput`, its whole result is `RoundResult`. The fold decides when a
round runs, and stores the state.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from strategies.cluster.budget import Budget
from strategies.cluster.cluster_state import Gained
from strategies.cluster.model import (
    ClusterView,
    Decision,
    Round,
    Skip,
)
from strategies.cluster.remembered_intents import statuses
from strategies.cluster.round_figures import RoundState
from strategies.cluster.strategy_memory import Memory
from strategies.dispatch_limits.throttle_advice import ReliefOptions, due_advice
from strategies.figures.usage_after_moves import Estimate, spread
from strategies.patterns_and_windows import is_open
from strategies.placement.destinations import Destinations
from strategies.round.asked_progress import update_asked
from strategies.round.asked_splits import AskedSplits, asked_splits
from strategies.round.clearance import Leaving, LeavingRules, decide
from strategies.round.commands_and_record import (
    DecidedAction,
    bounded,
    empty_record,
    number_command,
)
from strategies.round.compared_resources import adapt_memory, waiting_skip
from strategies.round.drain_progress import update_intents
from strategies.round.drain_step import DrainStep, drain_step
from strategies.round.hot_bundles import HotBundles
from strategies.round.participating_brokers import Screening, moves_on_the_way, screen, view_of
from strategies.round.round_input_and_digest import RoundInput, RoundResult, Rules
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.round.yielding import YIELDS, refuse_while_yielding
from strategies.shedding.contract import Shedder, Shedding
from strategies.splitting.due import SPLITTERS, SplitRules, due_splits
from strategies.splitting.when_modular import bundles_per_namespace
from strategies.states_and_advice_of_codes import Meaning, Meanings, Refusal

#: The reason codes of this module.
MEANINGS = (
    Meaning(
        "outside-window", "not-allowed", 300, "Wait for the next window, or change limits.windows."
    ),
    Meaning(
        "too-few-brokers", "cannot-help", 900, "Add brokers, or check limits.excluded_brokers."
    ),
    Meaning("more-left-alone"),
)

_NOT_NOW = "the time is outside limits.windows"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The first half of a round, up to the strategy's result."""

    #: The brokers that take part.
    screening: Screening
    #: The bundles that leave draining brokers.
    drains: DrainStep
    #: The bundles that persons asked to split.
    splits: AskedSplits
    #: The cluster with draining brokers, and without them.
    whole: ClusterView
    view: ClusterView
    destinations: Destinations
    #: The strategy's result.
    shedding: Shedding
    #: Number of commanded moves that `view` counts as done.
    under_way: int
    budget: Budget
    #: Refuses all bundles; None if they may leave.
    closed: Refusal | None


def assess_cluster(round_input: RoundInput, shedder: Shedder, rules: Rules) -> Assessment:
    """Runs the first half of a round: screens, drains, sheds. It reads a bundle table only where a
    bundle may be selected, so a round that reads no table decides nothing.
    """
    screening = screen(round_input, rules)
    before = memory = round_input.memory
    changed = False
    if len(screening.live) > 1:  # one broker alone is compared with no other
        memory, changed = adapt_memory(before, screening.left_out)
    if memory is not before:
        round_input = round_input.with_memory(memory)
    budget, closed = (
        Budget(rules.limits, round_input.state.spent, round_input.now_ms),
        _refuse_outside_windows(round_input, rules),
    )
    drained = drain_step(round_input, screening, rules, budget, closed)
    moves, draining = drained.moves, drained.draining
    whole = view = view_of(round_input, screening.live, rules)
    if moves or draining:
        view = view_of(round_input, screening.live, rules, moves, draining)
    splits = asked_splits(round_input, whole, drained, _split_rules(rules, closed, whole))
    if splits.actions:
        view = replace(view, cooling=view.cooling | splits.actions.keys())
    destinations = Destinations(
        view,
        round_input.number,
        rules.destinations,
        policies=view.policies,
        memory=drained.memory or memory,
        on_the_way=moves_on_the_way(round_input, whole, rules, moves),
        opened=drained.memory is not None,
    )
    view = replace(view, takers=destinations.takers, even=destinations.even)
    if screening.nothing or changed:
        skips = (
            () if screening.nothing else (waiting_skip(round_input.cluster, screening.left_out),)
        )
        shedding = Shedding((), skips, memory)
    else:
        shedding = _shed(view, destinations.memory, shedder)
    under_way = len(round_input.under_way) if rules.by_mode.counts_moves else 0
    return Assessment(
        screening,
        drained,
        splits,
        whole,
        view,
        destinations,
        shedding,
        under_way,
        budget,
        closed,
    )


def run_round(round_input: RoundInput, shedder: Shedder, rules: Rules) -> RoundResult:
    """Runs one round. Deterministic; never raises on valid input."""
    assessment = assess_cluster(round_input, shedder, rules)
    view, drained = assessment.view, _with_effects(assessment)
    leaving = _clear_bundles(round_input, assessment, rules)
    split_rules = _split_rules(rules, leaving.rules.closed, view, round_input.state.topics)
    splits = due_splits(
        view, {**drained, **leaving.kept}, round_input.state.memory.split_hits, split_rules
    )
    estimate = Estimate(assessment.whole, rules.usage)
    usage = estimate.usages()
    orders = [*map(_move, drained.values()), *map(_move, leaving.kept.values())]
    commands = [number_command(order, estimate, round_input, rules) for order in orders]
    # After the moves, because a split names the broker that is to be emptiest then.
    hot = HotBundles(round_input.state.topics, estimate, view, rules)
    stay = [*assessment.splits.actions.values(), *map(hot.split, splits.decisions)]
    yields = round_input.state.rivals.yielding_ms is not None
    if rules.throttling.advise and rules.by_mode.advises and not yields:
        decided, bundles_in = [*orders, *stay], split_rules.bundles_in
        advice = _advice(assessment, round_input, decided, bundles_in, rules, usage=usage)
        stay += map(hot.advise, advice)
    orders += stay
    commands += [number_command(order, estimate, round_input, rules) for order in stay]
    intents = update_asked(
        update_intents(round_input, assessment.screening, assessment.drains, rules),
        commands,
        {**assessment.drains.evacuation.refused, **assessment.splits.refused},
        round_input.now_ms,
        rules,
    )
    record = replace(
        empty_record(round_input, rules),
        brokers=tuple(usage),
        stale=assessment.screening.stale,
        usage=usage,
        usage_after=usage | estimate.changed_usages(),
        commands=tuple(command.id for command in commands),
        skips=tuple(map(hot.explain, _skips(round_input, assessment, leaving.skips, splits.skips))),
        certificate=assessment.shedding.certify(leaving.kept),
        forecast=assessment.shedding.forecast,
        state=_derive_state(
            assessment, orders, usage, (*leaving.skips, *splits.skips), rules.meanings
        ),
        intents=statuses(intents),
        counted=assessment.under_way,
        measured=_changed_usages(assessment, usage, rules) if assessment.under_way else {},
    )
    return RoundResult(
        tuple(commands),
        _with_spreads(record, assessment),
        Memory(leaving.memory.brokers, replace(leaving.memory.cluster, split_hits=splits.hits)),
        estimate.loads,
        assessment.budget.spent,
        {**assessment.drains.evacuation.throughputs, **leaving.throughputs},
        intents,
    )


def _with_effects(assessment: Assessment) -> dict[str, Decision]:
    """Returns the decisions of operators, with their effect if the strategy has learned it."""
    effect, leaving = assessment.shedding.effect, assessment.drains.evacuation.leaving
    return {
        bundle: replace(one, forecast=effect(bundle, one.source, one.destination or ""))
        for bundle, one in leaving.items()
    }


def _changed_usages(
    assessment: Assessment, usage: Mapping[str, float], rules: Rules
) -> dict[str, float]:
    """Returns the reported usage of the brokers for which commanded moves change it."""
    reported = {broker.broker: rules.usage(broker.figures) for broker in assessment.screening.live}
    return {name: fraction for name, fraction in reported.items() if fraction != usage[name]}


def _with_spreads(record: Round, assessment: Assessment) -> Round:
    """Adds the spreads of the brokers that are not being drained to the record."""
    names = [broker.broker for broker in assessment.view.brokers]
    throughputs = [broker.figures.traffic.msg_throughput for broker in assessment.view.brokers]
    return replace(
        record,
        spread=spread([record.usage[name] for name in names]),
        spread_after=spread([record.usage_after[name] for name in names]),
        throughput_spread=spread(throughputs),
    )


def _skips(
    round_input: RoundInput, assessment: Assessment, *refused: Sequence[Skip]
) -> tuple[Skip, ...]:
    """Returns all skips of the round, with a bounded number of names."""
    first = (*assessment.screening.skips, *assessment.drains.skips, *assessment.shedding.skips)
    return bounded(
        (*first, *(skip for skips in refused for skip in skips)),
        round_input.cluster,
        len(round_input.brokers),
    )


def _advice(
    assessment: Assessment,
    round_input: RoundInput,
    orders: Sequence[DecidedAction],
    bundles_in: Callable[[str], int],
    rules: Rules,
    *,
    usage: Mapping[str, float],
) -> list[DecidedAction]:
    """Returns the dispatch limits that the round advises."""
    busy = {order.decision.source for order in orders} | {
        move.source for move in round_input.under_way.values()
    }
    options = ReliefOptions(
        assessment.destinations.may_be_relieved,
        bundles_in,
        rules.splitting,
        busy,
        {*round_input.state.advised, *(order.decision.bundle for order in orders)},
    )
    return [
        DecidedAction("throttle", advice.decision, limits=advice.limits)
        for advice in due_advice(assessment.view, usage, options, rules.throttling)
    ]


def _derive_state(
    assessment: Assessment,
    orders: Sequence[DecidedAction],
    usage: Mapping[str, float],
    refused: Sequence[Skip],
    meanings: Meanings,
) -> RoundState:
    facts = RoundFacts(
        actions=[order.action for order in orders],
        brokers=[broker.broker for broker in assessment.view.brokers],
        stale=assessment.screening.stale,
        usage={broker.broker: usage[broker.broker] for broker in assessment.view.brokers},
        skips=(*assessment.screening.skips, *assessment.shedding.skips),
        meanings=meanings,
        refused=refused,
        under_way=assessment.under_way,
    )
    return state_of(facts)


def _move(decision: Decision) -> DecidedAction:
    return DecidedAction("unload" if decision.destination is None else "transfer", decision)


def _bundle_counter(view: ClusterView) -> Callable[[str], int]:
    """Returns a function namespace → number of its bundles, which counts all at its first call."""

    @cache
    def counts() -> Counter[str]:
        return bundles_per_namespace(
            name for broker in view.brokers for name in broker.bundles.names
        )

    return lambda namespace: counts()[namespace]


def _shed(view: ClusterView, memory: Memory, shedder: Shedder) -> Shedding:
    if len(view.brokers) > 1:
        return shedder.shed(view, memory)
    text = f"{len(view.brokers)} broker with fresh figures: there is nowhere to move a bundle to"
    return Shedding((), (Skip("cluster", (view.cluster,), "too-few-brokers", text),), memory)


def _refuse_outside_windows(round_input: RoundInput, rules: Rules) -> Refusal | None:
    """Returns the refusal of all bundles outside of `limits.windows`; None while they may leave."""
    opened = is_open(rules.windows, round_input.now_ms, rules.limits.utc_offset_minutes)
    return None if opened else Refusal("outside-window", f"would be moved, but {_NOT_NOW}")


def _clear_bundles(round_input: RoundInput, assessment: Assessment, rules: Rules) -> Leaving:
    elsewhere = {
        bundle: Gained(move.source, round_input.number)
        for bundle, move in assessment.drains.moves.items()
    }
    refusals = LeavingRules(
        rules.by_mode.keeps_due,
        assessment.budget,
        assessment.view.is_excluded,
        {**round_input.state.gained, **elsewhere} if elsewhere else round_input.state.gained,
        refuse_while_yielding(round_input.state.rivals) or assessment.closed,
        in_order=rules.by_mode.counts_moves,
    )
    brokers = {broker.broker: broker for broker in assessment.view.brokers}
    return decide(brokers, assessment.shedding, assessment.destinations, refusals)


def _split_rules(
    rules: Rules, closed: Refusal | None, view: ClusterView, topics: Collection[str] = ()
) -> SplitRules:
    """`topics`: the bundles whose topics are known."""
    if closed is not None:
        closed = Refusal(closed.code, YIELDS if closed.code == "rounds-yield" else _NOT_NOW)
    return SplitRules(
        rules.splitting,
        rules.destinations.filters.settings.load_manager,
        SPLITTERS[rules.mode],
        _bundle_counter(view),
        closed,
        topics,
    )
