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
    "Not in these figures: the brokers of bundles that have none, splits, namespaces that are "
    "created later, and dispatching."
)
_MOVING = "move bundles of topics between brokers"


def headline(upgrade: Upgrade, before: RunEffects, after: RunEffects) -> str:
    """The first sentence: moves and evenness after the upgrade, and today."""
    return (
        f"After the {upgrade.noun} to Pulsar {upgrade.after} your cluster would "
        f"{_moving(before, after)}; {_evenness(before, after)}."
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
    if not (isnan(before.clients) or isnan(after.clients)) and before.moves + after.moves:
        was = "" if before.clients == after.clients else f" instead of {count(before.clients)}"
        yield (
            f"The moves would disturb {number(round(after.clients), 'client connection')}{was}: "
            "producers and consumers reconnect when their bundle moves."
        )
    if after.busiest is not None and after.first_ms is not None:
        ts, most = after.busiest
        yield (
            f"The first move would be at {clock(after.first_ms)} of the recording, the most in one "
            f"round {most} at {clock(ts)}."
        )
    old, new = (_who(pair) for pair in upgrade.pairs)
    yield (
        f"The strategies stay: {new}."
        if old == new
        else f"Today {old}; after the {upgrade.noun} {new}."
    )


def _moving(before: RunEffects, after: RunEffects) -> str:
    daily = not isnan(before.per_day) and not isnan(after.per_day)
    if not before.moves and not after.moves:
        return f"{_MOVING} as little as before: not once in {_span(after)}"
    each = "a day" if daily else f"in {_span(after)}"
    old, new = (_times(one.per_day if daily else float(one.moves)) for one in (before, after))
    if not after.moves:
        return f"no longer {_MOVING} (today {old} {each})"
    same = "as before" if old == new else f"instead of {old}"
    return f"{_MOVING} {new} {each} {same}"


def _span(one: RunEffects) -> str:
    return f"the recorded {duration(round(one.summary.days * 86_400_000))}"


def _evenness(before: RunEffects, after: RunEffects) -> str:
    old, new = (f"{one.summary.mean_spread:.1f}" for one in (before, after))
    between = "between the fullest and the emptiest broker"
    if old == new:
        return (
            f"its brokers would be as even as before: {new} percentage points of load {between} "
            "on average"
        )
    how = "more" if after.summary.mean_spread < before.summary.mean_spread else "less"
    return (
        f"its brokers would be {how} even: {new} percentage points of load {between} on average "
        f"instead of {old}"
    )


def _times(value: float) -> str:
    if value == 0:
        return "never"
    if value == 1:
        return "once"
    shown = f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"
    return f"{shown} times"


def _who(pair: StrategyPair) -> str:
    """What sheds and what places."""
    sheds, places = class_name(pair.shedding), class_name(pair.placement)
    if pair.shedding == pair.placement:
        return f"{sheds} picks bundles and brokers"
    return f"{sheds} picks bundles and {places} brokers"


def clock(ms: int) -> str:
    """A time of the recording, to the minute."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
