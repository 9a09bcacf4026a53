"""The tables of a preview: the effects of each run, and the keys that change."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from pulsar_rebalancer.decisions.figure_texts import data_rate, figure
from pulsar_rebalancer.lab.report.figure_texts import count
from pulsar_rebalancer.lab.report.page import PageTable
from pulsar_rebalancer.lab.upgrade_preview.effects import RunEffects
from pulsar_rebalancer.lab.upgrade_preview.sentences import clock
from pulsar_rebalancer.settings.broker_conf.show import short_value
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade

_KEY_HEADS = ("key that broker.conf leaves out", "before", "after", "effect")


def effect_rows(effects: Sequence[RunEffects]) -> list[list[str]]:
    """One row per figure, one column per run."""
    return [
        ["strategy", *(one.run.strategy.partition("/")[0] for one in effects)],
        ["placement", *(one.run.placement for one in effects)],
        ["moves", *(f"{one.moves:,}" for one in effects)],
        ["moves a day", *(_rate(one.per_day) for one in effects)],
        ["bundles moved", *(f"{one.bundles:,}" for one in effects)],
        ["moved back within an hour", *(count(one.summary.returns) for one in effects)],
        ["traffic of all moves, in and out", *(_traffic(one) for one in effects)],
        ["reconnects of clients", *(count(one.clients) for one in effects)],
        ["first move", *(_when(one.first_ms) for one in effects)],
        ["most in one round", *(_busiest(one) for one in effects)],
        [
            "load between fullest and emptiest broker, mean",
            *(figure(one.summary.mean_spread, " points") for one in effects),
        ],
        [
            "load between fullest and emptiest broker, end",
            *(figure(one.summary.last_spread, " points") for one in effects),
        ],
        [
            "highest load of any broker",
            *(figure(one.summary.highest_usage, " %") for one in effects),
        ],
    ]


def key_rows(upgrade: Upgrade) -> list[list[str]]:
    """One row per key that the file leaves out and whose default differs."""
    return [
        [one.key, short_value(one.before), short_value(one.after), one.effect]
        for one in upgrade.omitted
    ]


def page_tables(effects: Sequence[RunEffects], upgrade: Upgrade) -> list[PageTable]:
    """Both tables for the report."""
    heads = ["", *(one.run.title for one in effects)]
    tables = [
        PageTable(
            f"What the {upgrade.noun} would do",
            "A broker's load is that of its fullest resource, in percent; points are percentage "
            "points. A client is a producer or a consumer; it reconnects when its bundle moves.",
            heads,
            effect_rows(effects),
            [[] for _ in heads],
        )
    ]
    if upgrade.omitted:
        tables.append(
            PageTable(
                "Why: defaults that change",
                f"Keys that broker.conf leaves out, with their defaults in Pulsar {upgrade.before} "
                f"and {upgrade.after}. Keys that it sets keep their values.",
                _KEY_HEADS,
                key_rows(upgrade),
                [[] for _ in _KEY_HEADS],
                names=len(_KEY_HEADS),
            )
        )
    return tables


def _rate(value: float) -> str:
    return "–" if isnan(value) else f"{value:,.1f}"


def _traffic(one: RunEffects) -> str:
    return data_rate(one.summary.traffic) if one.moves else "none"


def _when(ms: int | None) -> str:
    return "–" if ms is None else clock(ms).removesuffix(" UTC")


def _busiest(one: RunEffects) -> str:
    return "–" if one.busiest is None else f"{one.busiest[1]} at {_when(one.busiest[0])}"
