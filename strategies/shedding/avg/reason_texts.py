"""The sentences of decisions and skips of AvgShedder, the same in both modes."""

from collections.abc import Sequence

from strategies.cluster.model import Decision, Evidence, Skip
from strategies.shedding.avg.broker_pairs import BrokerPair, Hits, Need, Ranking
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.candidates import Pick
from strategies.shedding.reason_texts import SHOWN, SPELLED_OUT, broker_skips, mib, msgs, setting


def rest(need: Need) -> str:
    """Why bundles of the fuller broker stay."""
    return (
        f"it is idle, or more than what is left of the {_all(need)} when its turn comes, "
        "heaviest first"
    )


def _all(need: Need) -> str:
    """The amount to move, and the setting that limits it."""
    return (
        f"{SHOWN[need.metric](need.amount)} to move "
        f"({setting('shedding.avg.max_unload', need.share)} of the difference)"
    )


def apart(pair: BrokerPair) -> str:
    """`b5 at 80.0 % is 60.0 points above b1 at 20.0 %`"""
    return (
        f"{pair.over.broker} at {pair.over_score:.1f} % is {pair.difference:.1f} points above "
        f"{pair.under.broker} at {pair.under_score:.1f} %"
    )


def transfer(
    pick: Pick, *, pair: BrokerPair, hits: Hits, need: Need, settings: AvgSettings
) -> Decision:
    """A bundle that goes from the fuller broker of a pair to the emptier one."""
    destination, shown = pair.under.broker, SHOWN[need.metric]
    counted = f"{hits.high} urgent" if hits.code(settings) == "far-apart" else f"{hits.low}"
    text = (
        f"{apart(pair)} after {counted} hits in a row: {shown(pick.load)} of the "
        f"{shown(need.amount)} to move go to {destination}"
    )
    evidence: Evidence = {
        "over_score": pair.over_score,
        "under_score": pair.under_score,
        "hits_high": hits.high,
        "hits_low": hits.low,
        "metric": need.metric,
        "to_move": need.amount,
        "bundle_load": pick.load,
        "paired_with": pair.under.broker,
    }
    code = hits.code(settings)
    return Decision(pick.bundle, pair.over.broker, destination, code, text, evidence)


def close_together(ranking: Ranking, near: Sequence[int], settings: AvgSettings) -> list[Skip]:
    """Skips of brokers in near pairs; a single middle broker is paired with itself. `near`:
    positions of these pairs.
    """
    names = list(dict.fromkeys(ranking.names(near)))
    limit = (
        f"less than {setting('shedding.avg.low_threshold', settings.low_threshold)} points apart"
    )
    return broker_skips(
        "close-together",
        names,
        lambda index: _near(ranking.pair(near[index // 2]), limit),
        lambda: f"{len(names):,} brokers are {limit} from the one they are compared with",
        {"low_threshold": settings.low_threshold},
    )


def waiting_for_hits(pair: BrokerPair, hits: Hits, settings: AvgSettings) -> Skip:
    """Skip of a pair that is far apart, but not yet in enough samples."""
    evidence: Evidence = {
        "difference": pair.difference,
        "hits_high": hits.high,
        "hits_low": hits.low,
    }
    return Skip(
        "broker", _both(pair), "waiting-for-hits", _waiting(pair, hits, settings), None, evidence
    )


def many_waiting(waiting: Sequence[tuple[BrokerPair, Hits]], settings: AvgSettings) -> list[Skip]:
    """The result of `gathered` for more than `SPELLED_OUT` pairs, without creating their skips;
    empty for fewer.
    """
    if len(waiting) <= SPELLED_OUT:
        return []
    names = tuple(
        dict.fromkeys(broker.broker for pair, _ in waiting for broker in (pair.over, pair.under))
    )
    text = f"{len(names):,} brokers for the same reason, such as: {_waiting(*waiting[0], settings)}"
    return [Skip("broker", names, "waiting-for-hits", text)]


def too_little_traffic(pair: BrokerPair, settings: AvgSettings) -> Skip:
    """Skip of a pair whose difference in traffic is too small to balance their usage."""
    over, under = pair.over.figures.traffic, pair.under.figures.traffic
    text = (
        f"{apart(pair)}, but {setting('shedding.avg.max_unload', settings.max_unload)} of the "
        "difference of "
        f"{msgs(over.msg_rate - under.msg_rate)} and "
        f"{mib(over.msg_throughput - under.msg_throughput)} is not more than "
        f"{setting('shedding.avg.min_msg_rate', settings.min_msg_rate)} msg/s or "
        f"{setting('shedding.avg.min_throughput', settings.min_throughput)} bytes/s, the "
        "least that is worth moving"
    )
    return Skip(
        "broker", _both(pair), "too-little-traffic", text, None, {"difference": pair.difference}
    )


def nothing_fits(pair: BrokerPair, need: Need) -> Skip:
    """Skip of a pair that is due but has no bundle of the right size."""
    text = f"{apart(pair)}, but none of its bundles that may move is within the {_all(need)}"
    return Skip("broker", _both(pair), "nothing-fits", text, None, {"to_move": need.amount})


def sole_bundle(pair: BrokerPair) -> Skip:
    """Skip of a pair that is due but whose only bundle carries the broker's whole load."""
    return Skip("broker", _both(pair), "sole-bundle", f"{apart(pair)}, but it has no second bundle")


def _waiting(pair: BrokerPair, hits: Hits, settings: AvgSettings) -> str:
    low, high = settings.hit_count_low, settings.hit_count_high
    return (
        f"{apart(pair)}, with {hits.low} of {low} hits at {settings.low_threshold:g} points "
        f"and {hits.high} of {high} at "
        f"{settings.high_threshold:g} ({setting('shedding.avg.hit_count_low', low)}, "
        f"{setting('shedding.avg.hit_count_high', high)})"
    )


def _near(pair: BrokerPair, limit: str) -> str:
    if pair.under is pair.over:
        return (
            f"it is in the middle at {pair.over_score:.1f} %, with no broker left to compare it "
            "with"
        )
    return f"{apart(pair)}: {limit}"


def _both(pair: BrokerPair) -> tuple[str, ...]:
    return tuple(dict.fromkeys((pair.over.broker, pair.under.broker)))
