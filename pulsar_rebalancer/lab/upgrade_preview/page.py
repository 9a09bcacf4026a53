"""The page of a preview: a report of its runs, with the upgrade's own verdict and tables."""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_rebalancer.lab.report.page import render
from pulsar_rebalancer.lab.report.verdict import NextStep, ReportVerdict
from pulsar_rebalancer.lab.upgrade_preview.effects import RunEffects
from pulsar_rebalancer.lab.upgrade_preview.planned_runs import PreviewPlan
from pulsar_rebalancer.lab.upgrade_preview.sentences import NOT_SHOWN, details, headline, is_short
from pulsar_rebalancer.lab.upgrade_preview.tables import page_tables
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
