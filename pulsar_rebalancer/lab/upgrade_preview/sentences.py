"""The preview in sentences: the first one for a reader who does not know the product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import isnan

from pulsar_rebalancer.decisions.figure_texts import number
from pulsar_rebalancer.lab.report.figure_texts import count, duration
from pulsar_rebalancer.lab.report.verdict import FEW_ROUNDS
from pulsar_rebalancer.lab.upgrade_preview.effects import RunEffects
from pulsar_rebalancer.settings.broker_conf.strategy_pair import StrategyPair, class_name
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade

#: What no run of a preview shows.
NOT_SHOWN = (
    "These figures leave out moves because brokers restart, where Pulsar first places a bundle "
    "that has no broker, splits, namespaces that are created later, and dispatching."
)


def headline(upgrade: Upgrade, settings: str, before: RunEffects, after: RunEffects) -> str:
    """The first sentence: moves and evenness with both versions. `settings`: whose they are, as
    `default settings`.
    """
    new, old = f"Pulsar {upgrade.after}", f"Pulsar {upgrade.before}"
    span = duration(round(after.summary.days * 86_400_000))
    apart = [f"{one.summary.mean_spread:.1f}" for one in (after, before)]
    points = "percentage points of load apart on average"
    return (
        f"In a simulation of the recorded {span} of your cluster, with {settings}, "
        f"{_moving(new, old, before.moves, after.moves)}; the fullest and the emptiest broker are "
        f"{_both(new, old, apart, points)}."
    )


def details(upgrade: Upgrade, before: RunEffects, after: RunEffects) -> str:
    """Clients, times, strategies, and how reliable the figures are."""
    return " ".join(_details(upgrade, before, after))


def is_short(*effects: RunEffects) -> bool:
    """Whether a run has too few rounds to rely on."""
    return any(one.run.rounds < FEW_ROUNDS for one in effects)


def _details(upgrade: Upgrade, before: RunEffects, after: RunEffects) -> Iterator[str]:
    new, old = upgrade.after, upgrade.before
    highest = [f"{one.summary.highest_usage:.1f} %" for one in (after, before)]
    if is_short(before, after):
        yield f"{number(after.run.rounds, 'round')} are too few to rely on."
    yield (
        f"The highest load of any broker is {_both(new, old, highest)}; load is that of a broker's "
        "fullest resource: CPU, memory or network."
    )
    if not (isnan(before.clients) or isnan(after.clients)) and before.moves + after.moves:
        reconnects = [_times(one.clients) for one in (after, before)]
        yield (
            "Producers and consumers reconnect, because their bundle moves, "
            f"{_both(new, old, reconnects)}."
        )
    returns = after.summary.returns
    if not isnan(returns) and returns:
        yield (
            f"With {new}, {number(round(returns), 'move')} "
            f"{'takes' if returns == 1 else 'take'} a bundle back within an hour; with {old}, "
            f"{count(before.summary.returns)}."
        )
    if after.busiest is not None and after.first_ms is not None:
        ts, most = after.busiest
        yield (
            f"The first move of {new} is at {clock(after.first_ms)}, in the time of the recording; "
            f"its largest round moves {number(most, 'bundle')}, at {clock(ts)}."
        )
    was, will = (_who(pair) for pair in upgrade.pairs)
    yield f"With both, {will}." if was == will else f"With {old}, {was}; with {new}, {will}."
    if upgrade.lines:
        yield (
            f"{number(len(upgrade.lines), 'line')} in broker.conf, listed below, "
            f"{'keeps' if len(upgrade.lines) == 1 else 'keep'} the load balancing of {old}."
        )


def _moving(new: str, old: str, before: int, after: int) -> str:
    moved = "groups of topics (bundles) between brokers"
    if before != after:
        return f"{new} moves {moved} {_times(after)}, {old} {_times(before)}"
    if not after:
        return f"neither {new} nor {old} moves {moved}"
    return f"{new} and {old} both move {moved} {_times(after)}"


def _both(new: str, old: str, figures: Sequence[str], what: str = "") -> str:
    """A figure after and before, said once if it is the same."""
    after, before = figures
    first = f"{after} {what}".rstrip()
    return f"{first} with both" if after == before else f"{first} with {new}, {before} with {old}"


def _times(value: float) -> str:
    if value == 0:
        return "never"
    return "once" if value == 1 else f"{value:,.0f} times"


def _who(pair: StrategyPair) -> str:
    """What sheds and what places."""
    sheds, places = class_name(pair.shedding), class_name(pair.placement)
    if pair.shedding == pair.placement:
        return f"{sheds} picks bundles and their brokers"
    return f"{sheds} picks bundles and {places} their brokers"


def clock(ms: int) -> str:
    """A time of the recording, to the minute."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
