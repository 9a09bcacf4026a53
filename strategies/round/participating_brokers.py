"""Selects the brokers of a round, and builds the strategy's view of the cluster: valid figures,
with moves under way counted as done.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from types import MappingProxyType

from strategies.averages.bundle_averages import bundles_of, unpack_history
from strategies.bundles import BundleLoads, no_bundles
from strategies.cluster.cluster_state import (
    COLLECTOR,
    EXECUTOR,
    BrokerState,
    Departed,
    InFlight,
    tolerance_of,
)
from strategies.cluster.cool_downs import bundles_at_rest, of_all_moves
from strategies.cluster.model import BrokerLoad, ClusterView, Skip
from strategies.figures.usage_after_moves import count_moves_as_done
from strategies.filters.isolation import unmatched
from strategies.filters.policies import PoliciesView, read_policies
from strategies.patterns_and_windows import matcher, of_namespaces
from strategies.placement.contract import UNKNOWN, Averages
from strategies.placement.expected_load_ledger import CountedMove, Ledger
from strategies.round.compared_resources import CommonFigures, compare_figures
from strategies.round.round_input_and_digest import RoundInput, Rules
from strategies.round.yielding import rival_skips
from strategies.shedding.reason_texts import by_reason
from strategies.states_and_advice_of_codes import Meaning

#: The reason codes of this module.
MEANINGS = (
    Meaning(
        "reports-rejected",
        "blind",
        1430,
        "Look at the rejected topic: its rows say what is wrong with the broker's reports.",
    ),
    Meaning("figures-left-out"),
    Meaning("excluded-broker"),
    Meaning("unreadable-policies"),
    Meaning("isolation-unmatched"),
    Meaning("clock-ahead"),
    Meaning("clock-behind"),
)
#: Codes about the policies of a cluster, which may be the reason why a bundle stays.
ABOUT_POLICIES = frozenset({"unreadable-policies", "isolation-unmatched"})
#: Codes whose sentence names a gap in the reports and its remedy, in every state of a round.
TO_MEND = frozenset(
    {"resource-not-measured", "nothing-measured", "figures-left-out", "reports-rejected"}
)

#: Second part of the reason for a broker without an accepted report.
_LISTED = "the newest sweep lists it, so look at the rejected topic for its reports"
#: Maximum characters of a collector's reason for a broker that did not answer.
_LONGEST_REASON = 300
#: Policy snapshots up to this number of characters are cached together, and of larger ones only the
#: last: parsed, a snapshot takes many times its size.
_SMALL_SNAPSHOT = 2**16
#: Maximum number of policies with patterns that match no broker that a round names.
_POLICIES_NAMED = 10


@dataclass(frozen=True, slots=True)
class Screening:
    """The result of screening."""

    #: Brokers that take part, with the figures by which they are compared.
    live: tuple[BrokerState, ...]
    #: Broker whose figures are too old or not usable → the reason.
    stale: dict[str, str]
    #: Skips about brokers, clocks, policies and rivals.
    skips: tuple[Skip, ...]
    #: See `CommonFigures`.
    left_out: tuple[str, ...] = ()
    nothing: bool = False


def screen(round_input: RoundInput, rules: Rules) -> Screening:
    """Selects the brokers with valid figures, except those that `limits.excluded_brokers` names."""
    live, stale, excluded, clocks = list[BrokerState](), dict[str, str](), list[str](), list[Skip]()
    tolerance, few = tolerance_of(rules.round), len(round_input.brokers) == 2
    is_excluded = matcher(rules.limits.excluded_brokers)
    for broker in round_input.brokers:
        age = round_input.now_ms - broker.reported_at_ms
        stray = round_input.state.strays.get(broker.broker)
        lead = -age if stray is None else stray.lead_ms
        if is_excluded(broker.broker):
            excluded.append(broker.broker)
        elif broker.reported_at_ms < 0:
            stale[broker.broker] = "no load figures yet"
        elif -age > tolerance or (stray is not None and stray.used and lead > 0):
            stale[broker.broker] = _clock_text(lead, few)
            clocks.append(_clock_skip(broker.broker, lead, few))
        elif age > rules.round.stale_after_ms:
            why = round_input.state.missing.get(broker.broker, "")[:_LONGEST_REASON]
            limit = f"round.stale_after_ms = {rules.round.stale_after_ms}"
            stale[broker.broker] = f"newest report is {age / 1000:.0f} s old, {limit}" + (
                f" ({why})" if why else ""
            )
            if stray is not None:
                stale[broker.broker] += f"; {_clock_text(lead, few)}"
                clocks.append(_clock_skip(broker.broker, lead, few))
        else:
            live.append(broker)
    text = (
        "limits.excluded_brokers names it: it neither sheds nor takes bundles, and no mean "
        "includes it"
    )
    skips = [Skip("broker", tuple(excluded), "excluded-broker", text)] if excluded else []
    skips += _policy_skips(round_input, rules)
    names = {broker.broker for broker in round_input.brokers}
    clocks += [
        _clock_skip(name, stray.lead_ms, few, round_input.cluster)
        for name, stray in round_input.state.strays.items()
        if name not in names
    ]
    refused = _find_unaccepted(round_input, stale, is_excluded)
    others = rival_skips(
        round_input.state.rivals,
        round_input.cluster,
        round_input.now_ms,
        rules.rivals,
        rules.round.cool_down_ms,
    )
    common = CommonFigures({broker.broker: broker.figures for broker in live})
    if rules.by_mode.compares_measured:
        weights = rules.destinations.weights
        common = compare_figures(common.figures, weights, rules.capacities, round_input.cluster)
    return Screening(
        tuple(_with_common(broker, common) for broker in live if broker.broker in common.figures),
        {**stale, **refused, **common.blind},
        (*skips, *clocks, *_left_out_skips(live), *_rejections(refused), *others, *common.skips),
        common.left_out,
        common.nothing,
    )


def _policy_skips(round_input: RoundInput, rules: Rules) -> Iterator[Skip]:
    for why in _parse_policies(round_input.state.policies).complaints:
        yield Skip("cluster", (round_input.cluster,), "unreadable-policies", why)
    for why in _unmatched_patterns(round_input, rules):
        yield Skip("cluster", (round_input.cluster,), "isolation-unmatched", why)


def _find_unaccepted(
    round_input: RoundInput, stale: Mapping[str, str], is_excluded: Callable[[str], bool]
) -> dict[str, str]:
    """Returns broker → reason of the brokers with figures in the sweep of this round, but without
    an accepted report, or without a fresh one: their reports reached the topic and were rejected.
    """
    names = {broker.broker for broker in round_input.brokers}
    reasons = {
        name: stale.get(name, "no report of it was accepted")
        for name in sorted(round_input.listed or ())
        if name not in round_input.state.missing
        and name not in round_input.state.gone
        and name not in round_input.state.strays
        and not is_excluded(name)
        and (name in stale or name not in names)
    }
    return {name: f"{why}; {_LISTED}" for name, why in reasons.items()}


def _rejections(refused: Mapping[str, str]) -> list[Skip]:
    text = f"no report of it was accepted lately; {_LISTED}"
    return by_reason("reports-rejected", dict.fromkeys(refused, text))


def _left_out_skips(live: Sequence[BrokerState]) -> list[Skip]:
    """Returns skips for the parts of the brokers' newest reports that could not be used."""
    complaints = {
        broker.broker: "; ".join((*broker.left_out, *broker.left_out_of_table)) for broker in live
    }
    return by_reason("figures-left-out", {name: text for name, text in complaints.items() if text})


def _with_common(broker: BrokerState, common: CommonFigures) -> BrokerState:
    """Returns a broker with the figures by which it is compared."""
    figures = common.figures[broker.broker]
    return broker if figures is broker.figures else replace(broker, figures=figures)


def _clock_skip(producer: str, lead_ms: int, few: bool, cluster: str = "") -> Skip:
    """Returns the skip for a producer whose clock is not believed."""
    code, evidence = ("clock-ahead" if lead_ms > 0 else "clock-behind"), {"lead_ms": lead_ms}
    if producer in (COLLECTOR, EXECUTOR):
        return Skip(
            "cluster",
            (cluster,),
            code,
            f"the {producer}: {_clock_text(lead_ms, few=False)}",
            evidence={"producer": producer, **evidence},
        )
    return Skip("broker", (producer,), code, _clock_text(lead_ms, few), evidence=evidence)


def _clock_text(lead_ms: int, few: bool) -> str:
    """Describes a wrong clock. `few`: there are two brokers only, so neither has a majority."""
    where = "ahead of" if lead_ms > 0 else "behind"
    text = f"its clock is {abs(lead_ms) / 1000:.0f} s {where} the cluster's time: check it"
    return (
        f"{text}, and the other broker's clock: two brokers alone do not show which clock is wrong"
        if few
        else text
    )


def _parse_policies(text: str | None) -> PoliciesView:
    """Returns the policies of a snapshot; equal texts are parsed once."""
    return _read(text) if _is_small(text) else _read_large(text)


def _is_small(text: str | None) -> bool:
    return text is None or len(text) <= _SMALL_SNAPSHOT


def _unmatched_patterns(round_input: RoundInput, rules: Rules) -> tuple[str, ...]:
    """Returns a sentence for each isolation policy with patterns that match no broker, those
    without figures included. Equal policies and brokers are compared once.
    """
    if (
        round_input.state.policies is None
        or not _parse_policies(round_input.state.policies).isolation
    ):
        return ()
    names = tuple(
        sorted({*(broker.broker for broker in round_input.brokers), *round_input.state.missing})
    )
    compare = _compare if _is_small(round_input.state.policies) else _compare_large
    return compare(round_input.state.policies, rules.isolation_by_id, names)


def _match_patterns(text: str, by_id: bool, brokers: tuple[str, ...]) -> tuple[str, ...]:
    policies = replace(_parse_policies(text), by_id=by_id)
    mismatches = filter(
        None, (unmatched(policies, policy, brokers) for policy in policies.isolation)
    )
    sentences = tuple(islice(mismatches, _POLICIES_NAMED + 1))
    more = ("other isolation policies have such patterns, too",)
    return sentences if len(sentences) <= _POLICIES_NAMED else sentences[:_POLICIES_NAMED] + more


def view_of(
    round_input: RoundInput,
    live: tuple[BrokerState, ...],
    rules: Rules,
    leaving: Mapping[str, InFlight] = MappingProxyType({}),
    draining: Collection[str] = (),
) -> ClusterView:
    """Builds the cluster as input of the strategies, without the `draining` brokers. `leaving`:
    bundles that leave these in this round; they count like the moves under way.
    """
    moves = {**round_input.under_way, **leaving}
    in_flight = moves if rules.by_mode.counts_moves else {}
    figures = count_moves_as_done({state.broker: state.figures for state in live}, in_flight)
    estimated = {move.destination for move in in_flight.values()}
    estimated |= {move.source for move in in_flight.values() if not move.left}
    number = round_input.number
    brokers = tuple(
        BrokerLoad(
            broker=state.broker,
            figures=figures[state.broker],
            load_bundles=partial(_read_table, round_input, state.broker),
            count_bundles=partial(_count_bundles, round_input, state.broker),
            fresh=state.sampled_round == number,
            settling=rules.by_mode.counts_moves and state.sampled_at_ms <= state.judged_after_ms,
            summary=state.table,
            reported_at_ms=state.reported_at_ms,
            estimated=state.broker in estimated,
        )
        for state in live
        if state.broker not in draining
    )
    policies = _parse_policies(round_input.state.policies)
    if rules.isolation_by_id:
        policies = replace(policies, by_id=True)
    cooling = of_all_moves(round_input.state, round_input.now_ms, rules.round.cool_down_ms)
    return ClusterView(
        round_input.cluster,
        round_input.now_ms,
        brokers,
        bundles_at_rest(cooling, in_flight, leaving),
        cool_down_ms=rules.round.cool_down_ms,
        is_excluded=of_namespaces(rules.limits.excluded_namespaces),
        policies=policies,
        foreign_ms=max((move.ts for move in round_input.state.rivals.moves), default=-1),
        command_ttl_ms=rules.round.command_ttl_ms,
    )


def moves_on_the_way(
    round_input: RoundInput,
    view: ClusterView,
    rules: Rules,
    leaving: Mapping[str, InFlight] = MappingProxyType({}),
) -> list[CountedMove]:
    """Returns the moves under way, for the placement: the figures already include them, the lists
    of bundles and topics do not. `view`: with all brokers; `leaving`: see `view_of`.
    """
    ledger = Ledger(view.brokers, rules.destinations.weights)
    moves = []
    # By name, because rates are summed in this order, and outcomes change the order of `under_way`.
    for bundle, move in sorted({**round_input.under_way, **leaving}.items()):
        averages = ledger.averages(bundle, move.source)
        if averages is UNKNOWN and bundle in round_input.state.departed:
            averages = _averages_of(
                round_input.state.departed[bundle], view.policies.topics.get(bundle, 0)
            )
        moves.append(CountedMove(bundle, move.source, move.destination, averages, shown=True))
    return moves


def _averages_of(departed: Departed, topics: int) -> Averages:
    row = departed.row
    return Averages(
        (row[0], row[1], row[2], row[3]),
        (row[4], row[5], row[6], row[7]),
        int(row[8]),
        int(row[9]),
        topics,
    )


_read = lru_cache(maxsize=64)(read_policies)
_read_large = lru_cache(maxsize=1)(read_policies)
_compare = lru_cache(maxsize=64)(_match_patterns)
_compare_large = lru_cache(maxsize=1)(_match_patterns)


def _read_table(round_input: RoundInput, broker: str) -> BundleLoads:
    table = round_input.read_table(broker)
    return no_bundles() if table is None else unpack_history(table).loads()


def _count_bundles(round_input: RoundInput, broker: str, namespace: str) -> int:
    table = round_input.read_table(broker)
    return 0 if table is None else bundles_of(table, namespace)
