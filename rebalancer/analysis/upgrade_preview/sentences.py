"""The preview in sentences: the first one for a reader who does not know the product."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from math import isnan

from rebalancer.analysis.report.figure_texts import count, duration, number
from rebalancer.analysis.report.verdict import FEW_ROUNDS
from rebalancer.analysis.upgrade_preview.effects import RunEffects
from rebalancer.settings.broker_conf.strategy_pair import StrategyPair, class_name
from rebalancer.settings.broker_conf.upgrade import Upgrade

#: What no run of a preview shows.
NOT_SHOWN = (
    "Not in these figures: where Pulsar first places a bundle that has no broker, splits, "
    "namespaces that are created later, and dispatching."
)
_GROUPS = "groups of topics (bundles) between brokers"


def headline(upgrade: Upgrade, settings: str, before: RunEffects, after: RunEffects) -> str:
    """The first sentence: moves and evenness after the upgrade, and today. `settings`: whose they
    are, as `default settings`.
    """
    return (
        f"After the {upgrade.noun} from Pulsar {upgrade.before} to {upgrade.after}, with "
        f"{settings}, your cluster would {_moving(before, after)}; {_evenness(before, after)}."
    )


def details(upgrade: Upgrade, before: RunEffects, after: RunEffects) -> str:
    """Clients, times, strategies, and how reliable the figures are."""
    return " ".join(_details(upgrade, before, after))


def is_short(*effects: RunEffects) -> bool:
    """Whether a run has too few rounds to rely on."""
    return any(one.run.rounds < FEW_ROUNDS for one in effects)


def _details(upgrade: Upgrade, before: RunEffects, after: RunEffects) -> Iterator[str]:
    if is_short(before, after):
        yield f"{number(after.run.rounds, 'round')} are too few to rely on."
    yield (
        f"The highest load of any broker would be {after.summary.highest_usage:.1f} %"
        f"{_compared(before.summary.highest_usage, after.summary.highest_usage, ' %')}."
    )
    if not (isnan(before.clients) or isnan(after.clients)) and before.moves + after.moves:
        was = "" if before.clients == after.clients else f" instead of {_times(before.clients)}"
        yield (
            f"Producers and consumers would reconnect {_times(after.clients)}{was}: those of a "
            "bundle do so when it moves."
        )
    returns = after.summary.returns
    if not isnan(returns) and returns:
        yield (
            f"{number(round(returns), 'move')} would take a bundle back within an hour (today "
            f"{count(before.summary.returns)})."
        )
    if after.busiest is not None and after.first_ms is not None:
        ts, most = after.busiest
        yield (
            f"The first move would be at {clock(after.first_ms)} in the time of the recording; the "
            f"round with the most moves would have {most}, at {clock(ts)}."
        )
    old, new = (_who(pair) for pair in upgrade.pairs)
    yield (
        f"The strategies stay: {new}."
        if old == new
        else f"Today {old}; after the {upgrade.noun} {new}."
    )
    if upgrade.lines:
        yield (
            f"{number(len(upgrade.lines), 'line')} in broker.conf, listed below, "
            f"{'keeps' if len(upgrade.lines) == 1 else 'keep'} today's load balancing."
        )


def _moving(before: RunEffects, after: RunEffects) -> str:
    span = f"in the recorded {duration(round(after.summary.days * 86_400_000))}"
    if not after.moves:
        was = f", instead of {_times(before.moves)}" if before.moves else ", as today"
        return f"not move {_GROUPS} {span}{was}"
    same = "as today" if before.moves == after.moves else f"instead of {_times(before.moves)}"
    return f"move {_GROUPS} {_times(after.moves)} {span}, {same}"


def _evenness(before: RunEffects, after: RunEffects) -> str:
    mean = after.summary.mean_spread
    return (
        f"its fullest and its emptiest broker would be {mean:.1f} percentage points of load apart "
        f"on average{_compared(before.summary.mean_spread, mean)}"
    )


def _compared(before: float, after: float, unit: str = "") -> str:
    old, new = f"{before:.1f}", f"{after:.1f}"
    return ", as today" if old == new else f" instead of {old}{unit}"


def _times(value: float) -> str:
    """`never`, `once`, `1,204 times`."""
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
