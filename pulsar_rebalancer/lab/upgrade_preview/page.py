"""The page of a preview: a report of its runs, with the upgrade's own verdict and tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from pulsar_rebalancer.decisions.figure_texts import data_rate, figure
from pulsar_rebalancer.lab.report.figure_texts import count
from pulsar_rebalancer.lab.report.page import PageTable, render
from pulsar_rebalancer.lab.report.verdict import NextStep, ReportVerdict
from pulsar_rebalancer.lab.upgrade_preview.effects import RunEffects
from pulsar_rebalancer.lab.upgrade_preview.planned_runs import PreviewPlan
from pulsar_rebalancer.lab.upgrade_preview.sentences import (
    NOT_SHOWN,
    clock,
    details,
    headline,
    is_short,
)
from pulsar_rebalancer.settings.broker_conf.show import short_value
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade


def preview_page(
    clusters: Sequence[Sequence[RunEffects]],
    plan: PreviewPlan,
    *,
    title: str,
    made_by: str,
) -> str:
    """The HTML. `clusters`: the runs of each cluster, those that the verdict compares first.
    Raises SettingsError if plotly is missing.
    """
    runs = [one for effects in clusters for one in effects]
    return render(
        [one.run for one in runs],
        title=title,
        made_by=made_by,
        verdict=_verdict(clusters, plan),
        tables=page_tables(runs, plan.upgrade),
    )


def _verdict(clusters: Sequence[Sequence[RunEffects]], plan: PreviewPlan) -> ReportVerdict:
    first, upgrade = clusters[0], plan.upgrade
    several = f"{first[0].run.cluster}: " if len(clusters) > 1 else ""
    said = [details(upgrade, first[0], first[1])]
    said += [
        f"{effects[0].run.cluster}: {headline(upgrade, plan.settings, effects[0], effects[1])}"
        for effects in clusters[1:]
    ]
    return ReportVerdict(
        "unsure" if any(is_short(*effects) for effects in clusters) else "compared",
        several + headline(upgrade, plan.settings, first[0], first[1]),
        " ".join([*said, *plan.remarks, *(f"{one}." for one in upgrade.remarks), NOT_SHOWN]),
        steps(upgrade),
    )


def steps(upgrade: Upgrade) -> tuple[NextStep, ...]:
    """What to set before the upgrade to keep today's behaviour."""
    found = []
    if upgrade.lines:
        found.append(
            NextStep(
                f"To keep the load balancing of Pulsar {upgrade.before}, add to broker.conf before "
                f"the {upgrade.noun} what it does not set yet:",
                "\n".join(upgrade.lines),
            )
        )
    else:
        found.append(NextStep("No line in broker.conf is needed to keep the load balancing."))
    if upgrade.other_lines:
        found.append(
            NextStep(
                "To keep other defaults too, on which no figure above depends:",
                "\n".join(upgrade.other_lines),
            )
        )
    return tuple(found)


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
