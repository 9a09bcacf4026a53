"""What an upgrade would do: its figures, sentences and tables, and the page that has them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isnan, nan
from typing import Any

from pulsar_rebalancer.decisions.explain.explanation_lines import formatted
from pulsar_rebalancer.decisions.skip_and_certificate_texts import figure, number
from pulsar_rebalancer.lab.report.chart_data import moved_traffic
from pulsar_rebalancer.lab.report.page import PageTable, render
from pulsar_rebalancer.lab.report.timeline_summary import Summary, count, duration
from pulsar_rebalancer.lab.report.verdict import FEW_ROUNDS, NextStep, ReportVerdict
from pulsar_rebalancer.lab.upgrade_preview.planned_runs import PreviewPlan
from pulsar_rebalancer.settings.broker_conf.converted_conf_text import short_value
from pulsar_rebalancer.settings.broker_conf.keys import class_name
from pulsar_rebalancer.settings.broker_conf.upgrade import StrategyPair, Upgrade
from strategies.ordered_sum import ordered_sum


class RunEffects(Summary):
    """A run's summary, and what else a preview shows of it."""

    @property
    def per_day(self) -> float:
        """Moves a day; NaN for less than a day, from which none follow."""
        return len(self.moves) / self.days if self.days >= 1 else nan

    @property
    def bundles(self) -> int:
        """Number of different bundles that moved."""
        return len({move.bundle for move in self.moves})

    @property
    def clients(self) -> float:
        """Producers and consumers that reconnected: those of each bundle before each of its moves;
        NaN if no number is known.
        """
        known = [move.clients for move in self.moves if not isnan(move.clients)]
        return ordered_sum(known) if known or not self.moves else nan

    @property
    def first_ms(self) -> int | None:
        """Time of the first round with a move."""
        return min((self._time(one.round) for one in self.moves), default=None)

    @property
    def busiest(self) -> tuple[int, int] | None:
        """Time and number of moves of the round with the most of them."""
        by_round = Counter(move.round for move in self.moves)
        if not by_round:
            return None
        row = min(by_round, key=lambda row: (-by_round[row], row))
        return self._time(row), by_round[row]

    def effects_as_json(self) -> dict[str, Any]:
        """What the summary's JSON does not have; None for unknown figures."""
        when = self.busiest
        return {
            "moves_per_day": None if isnan(self.per_day) else round(self.per_day, 6),
            "bundles_moved": self.bundles,
            "clients_disturbed": None if isnan(self.clients) else round(self.clients),
            "first_move_at_ms": self.first_ms,
            "most_moves_in_a_round": 0 if when is None else when[1],
            "most_moves_at_ms": None if when is None else when[0],
        }

    def _time(self, row: int) -> int:
        return int(self.run.times_ms[row])


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
    span = duration(round(after.days * 86_400_000))
    apart = [f"{one.mean_spread:.1f}" for one in (after, before)]
    points = "percentage points of load apart on average"
    moving = _moving(new, old, len(before.moves), len(after.moves))
    return (
        f"In a simulation of the recorded {span} of your cluster, with {settings}, "
        f"{moving}; the fullest and the emptiest broker are "
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
    highest = [f"{one.highest_usage:.1f} %" for one in (after, before)]
    if is_short(before, after):
        yield f"{number(after.run.rounds, 'round')} are too few to rely on."
    yield (
        f"The highest load of any broker is {_both(new, old, highest)}; load is that of a broker's "
        "fullest resource: CPU, memory or network."
    )
    if not (isnan(before.clients) or isnan(after.clients)) and (before.moves or after.moves):
        reconnects = [_times(one.clients) for one in (after, before)]
        yield (
            "Producers and consumers reconnect, because their bundle moves, "
            f"{_both(new, old, reconnects)}."
        )
    returns = after.returns
    if not isnan(returns) and returns:
        yield (
            f"With {new}, {number(round(returns), 'move')} "
            f"{'takes' if returns == 1 else 'take'} a bundle back within an hour; with {old}, "
            f"{count(before.returns)}."
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
    return formatted(ms, "%Y-%m-%d %H:%M UTC")


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
        ["moves", *(f"{len(one.moves):,}" for one in effects)],
        ["moves a day", *(figure(one.per_day) for one in effects)],
        ["bundles moved", *(f"{one.bundles:,}" for one in effects)],
        ["moved back within an hour", *(count(one.returns) for one in effects)],
        ["traffic of all moves, in and out", *(moved_traffic(one) for one in effects)],
        ["reconnects of clients", *(count(one.clients) for one in effects)],
        ["first move", *(_when(one.first_ms) for one in effects)],
        ["most in one round", *(_busiest(one) for one in effects)],
        [
            "load between fullest and emptiest broker, mean",
            *(figure(one.mean_spread, " points") for one in effects),
        ],
        [
            "load between fullest and emptiest broker, end",
            *(figure(one.last_spread, " points") for one in effects),
        ],
        [
            "highest load of any broker",
            *(figure(one.highest_usage, " %") for one in effects),
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


def _when(ms: int | None) -> str:
    return "–" if ms is None else clock(ms).removesuffix(" UTC")


def _busiest(one: RunEffects) -> str:
    return "–" if one.busiest is None else f"{one.busiest[1]} at {_when(one.busiest[0])}"
