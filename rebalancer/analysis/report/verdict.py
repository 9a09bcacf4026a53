"""The sentences a busy person reads first: what happened, whether it was good, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Literal

from rebalancer.analysis.report.figure_texts import data_rate, duration, figure, number, points, share
from rebalancer.analysis.report.summary import Summary

#: `open`: recorded reports, which no move could have changed; `told`: a comparison that leaves the choice to the reader;
#: `unsure`: too little data for either.
Level = Literal["good", "fair", "bad", "open", "told", "unsure"]
#: Below so many rounds of a recording nobody should believe a difference.
FEW_ROUNDS = 60
#: So many points above first and last spread are worth telling.
_HIGHER = 5.0
#: Percent of usage that Pulsar's own default calls overloaded.
_FULL = 85.0
#: A run in which more than this part of the moves went to bundles that had moved before is restless.
_RESTLESS = 0.25


@dataclass(frozen=True, slots=True)
class NextStep:
    """One thing to do next; `command` is what to type, empty where there is nothing to type."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """`headline`: what happened; `detail`: why it is good or not; `next`: what to do."""

    level: Level
    headline: str
    detail: str
    next: tuple[NextStep, ...]


_LONGER = NextStep("Record for an hour or more, then ask again.", "rebalancer record week.parquet --follow")


def judge_runs(runs: Sequence[Summary], steps: Sequence[NextStep] = ()) -> ReportVerdict:
    """Of one run, or of several compared. `steps`: what the caller knows to be next; otherwise what follows from the verdict."""
    known = [run for run in runs if run.run.rounds]
    if not known:
        return ReportVerdict(
            "bad",
            "Nothing was decided: no round closed.",
            "There were no load reports of two brokers, or not enough time passed for a round.",
            (*steps, NextStep("Check what the recording holds; a round closes once a minute unless round.interval_ms says otherwise.")),
        )
    hopeless = [_hopeless(run, steps) for run in known]
    if all(hopeless):
        return hopeless[0] or _of_one(known[0], steps)
    if len(known) > 1:
        return _of_several(known, steps)
    judged = _of_one(known[0], steps)
    return _doubted(judged, known[0].run.rounds) if known[0].run.kind == "re-assigned" else judged


def _doubted(judged: ReportVerdict, rounds: int) -> ReportVerdict:
    """Nobody should believe a recording of minutes."""
    if rounds >= FEW_ROUNDS:
        return judged
    detail = f"{number(rounds, 'round')} {'is' if rounds == 1 else 'are'} too little to rely on. {judged.detail}"
    return replace(judged, level="unsure", detail=detail, next=(_LONGER, *judged.next))


def _hopeless(run: Summary, steps: Sequence[NextStep]) -> ReportVerdict | None:
    """What no strategy can do anything about."""
    if run.deserted_row is not None and run.run.kind in ("recorded", "re-assigned"):
        headline = f"From round {run.deserted_row + 1} of {run.run.rounds} on no broker's report could be used."
        detail = "They are missing, too old or out of order; without them nothing is known and nothing is decided."
        return ReportVerdict(
            "bad", headline, detail, (*steps, NextStep("See what is wrong with each record.", "rebalancer replay RECORDING"))
        )
    if run.deserted_row is not None:
        headline = f"From round {run.deserted_row + 1} of {run.run.rounds} on there was no broker."
        detail = "Bundles had nobody to serve them, and nothing could be moved: no figure after that means anything."
        return ReportVerdict("bad", headline, detail, (*steps, NextStep("Look below when the last brokers left, and why.")))
    if run.most_brokers == 1:
        headline = f"There was only one broker: in {number(run.run.rounds, 'round')} nothing could be moved."
        detail = "Load is balanced between brokers; with one there is nothing to decide, whatever the settings."
        return ReportVerdict("unsure", headline, detail, (*steps, NextStep("Ask again with the reports of two brokers or more.")))
    return None


def _of_one(run: Summary, steps: Sequence[NextStep]) -> ReportVerdict:
    if run.run.kind == "recorded":
        return _would_have(run, steps)
    headline = f"{_what_happened(run)} {_effort(run)}"
    if not run.content_at_end:
        return _not_content(run, headline, steps)
    if run.least_at_end >= _FULL:
        detail = f"Balanced, but full: the emptiest broker is at {run.least_at_end:.0f} %, and no move can help that."
        return ReportVerdict(
            "fair",
            headline,
            detail,
            (*steps, NextStep("Add brokers, or let clients send less; then the strategy has somewhere to move load.")),
        )
    restless = _restlessness(run)
    if restless:
        advice = NextStep(
            "Ask for steadier settings: more rounds of evidence before a move, or a higher threshold. `rebalancer tune` tries them."
        )
        return ReportVerdict("fair", headline, f"Balanced, but restless: {restless}.", (*steps, advice))
    if not run.moves:
        stayed = "stayed" if run.reached_share == 1 else "came"
        detail = f"The cluster {stayed} within the strategy's goal by itself; leaving it alone was right."
        return ReportVerdict("good", headline, detail, tuple(steps) or (NextStep("Nothing needs to be done."),))
    detail = f"Balanced: {_when_settled(run)}, and no bundle was moved to and fro."
    return ReportVerdict(
        "good", headline, detail, tuple(steps) or (NextStep("Keep these settings; look at the moves below if one surprises you."),)
    )


def _would_have(run: Summary, steps: Sequence[NextStep]) -> ReportVerdict:
    span = duration(round(run.days * 86_400_000))
    ask = f"would have asked for {number(run.commands, 'move')}" if run.commands else "would have moved nothing"
    headline = f"In these {span}, {run.run.strategy} {ask}; the spread was {points(run.mean_spread)} on average."
    detail = (
        "These are recorded reports: they do not react to what is decided here, so the same imbalance is met again and again. "
        "The picture shows when and why the strategy would have acted, not what would have come of it."
    )
    more = NextStep("To see what would have come of it, put the recorded loads where the moves say.", "rebalancer backtest RECORDING")
    return ReportVerdict("open", headline, detail, tuple(steps) or (more,))


def _not_content(run: Summary, headline: str, steps: Sequence[NextStep]) -> ReportVerdict:
    detail = f"Not balanced at the end: the last round missed the goal ({run.run.goal}). {share(run.reached_share)} of the rounds met it."
    level: Level = "fair" if run.reached_share >= 0.9 else "bad"
    if run.moves:
        advice = NextStep(
            "Look at the last rounds below: moves that still come mean it needs more time; none mean the strategy sees no way."
        )
    else:
        advice = NextStep("No move was made: see the settings below for thresholds that forbid it, or try another strategy.")
    return ReportVerdict(level, headline, detail, (*steps, advice))


def _of_several(runs: Sequence[Summary], steps: Sequence[NextStep]) -> ReportVerdict:
    evenest = min(runs, key=lambda run: (_or_inf(run.mean_spread), len(run.moves)))
    calmest = min(runs, key=lambda run: (len(run.moves), _or_inf(run.mean_spread)))
    said = f"{evenest.run.title} kept the brokers most even: {points(evenest.mean_spread)} of spread on average"
    effort = f"with {number(len(evenest.moves), 'move')}"
    if runs[0].run.kind == "recorded":
        asks = ", ".join(f"{run.run.title} {run.commands:,}" for run in runs)
        detail = (
            "Recorded reports do not react to decisions: this compares how often each would have acted, not what would have come of it."
        )
        more = NextStep(
            "To compare what would have come of it, put the recorded loads where the moves say.", "rebalancer backtest RECORDING"
        )
        return ReportVerdict("open", f"Moves that would have been asked for: {asks}.", detail, tuple(steps) or (more,))
    if not any(_differ(evenest, run) for run in runs):
        who = "Both" if len(runs) == 2 else f"All {len(runs)}"
        headline = f"{who} did the same: {points(evenest.mean_spread)} of spread on average, {effort}."
        detail = "On this data the choice makes no difference."
        if not evenest.moves:
            steps = steps or (
                NextStep("To see whether another threshold would have acted, look at the settings of each run, and change one."),
            )
    elif evenest is calmest:
        headline = f"{said}, {effort}, the fewest of all {len(runs)}."
        detail = "None of the others was better in either way."
    else:
        headline = (
            f"{said}, {effort}; {calmest.run.title} moved least: {number(len(calmest.moves), 'move')} for {points(calmest.mean_spread)}."
        )
        detail = "Every move interrupts the clients of its bundle for a moment, so the choice is yours: the table compares both."
    unbalanced = [run.run.title for run in runs if not run.content_at_end]
    if unbalanced:
        detail += f" Outside its own goal at the end: {', '.join(unbalanced)}."
    level: Level = "told" if len({run.run.goal for run in runs}) > 1 or not evenest.moves else _level(evenest)
    look = tuple(steps) or (NextStep(f"Choose a run below to see its moves; start with {evenest.run.title}."),)
    rounds = max(run.run.rounds for run in runs)
    if runs[0].run.kind != "re-assigned":
        return ReportVerdict(level, headline, detail, look)
    return _doubted(ReportVerdict(level, headline, detail, look), rounds)


def _level(run: Summary) -> Level:
    return "good" if run.content_at_end and not _restlessness(run) else "fair"


def _what_happened(run: Summary) -> str:
    first, last = run.first_spread, run.last_spread
    if abs(first - last) < 0.05:
        return f"The brokers' usage stayed {points(last)} apart."
    verb = "evened out" if last < first else "drifted apart"
    most = run.most_spread
    if most > max(first, last) + _HIGHER:
        between = f", up to {figure(most)} in between{_came_and_went(run)},"
        return f"The fullest and the emptiest broker were {points(first)} apart at first{between} and {figure(last)} at the end."
    return f"The brokers {verb}: the fullest and the emptiest were {points(first)} apart at first and {figure(last)} at the end."


def _came_and_went(run: Summary) -> str:
    """The broker that came or went, if it was one."""
    changes = run.run.memberships
    if len(changes) != 1:
        return f" ({number(len(changes), 'broker')} came or went)" if changes else ""
    return f" ({changes[0].broker} {changes[0].change})"


def _effort(run: Summary) -> str:
    moves = len(run.moves)
    if not moves:
        return f"Nothing was moved in {number(run.run.rounds, 'round')}."
    of_all = f" of {run.run.bundles:,}" if run.run.bundles else ""
    bundles = len({move.bundle for move in run.moves})
    moved = f"{number(bundles, 'bundle')}{of_all} {'was' if bundles == 1 else 'were'} moved"
    again = "" if moves == bundles else f" in {moves:,} moves"
    traffic = "" if isnan(run.traffic) else f" ({data_rate(run.traffic)} of traffic)"
    return f"{moved}{again}{traffic} in {number(run.run.rounds, 'round')}."


def _restlessness(run: Summary) -> str:
    if run.returned:
        return f"{number(run.returned, 'move')} took a bundle back to where it had just come from"
    moves = len(run.moves)
    if moves and run.repeated > _RESTLESS * moves:
        return f"{number(run.repeated, 'bundle')} moved more than once"
    return ""


def _when_settled(run: Summary) -> str:
    row = run.settled_row
    if not row:
        return "every round was within the goal"
    return f"within the goal from round {row + 1} on, {duration(int(run.run.times_ms[row] - run.run.times_ms[0]))} after the start"


def _differ(one: Summary, two: Summary) -> bool:
    """As far as the page shows it."""
    return len(one.moves) != len(two.moves) or points(one.mean_spread) != points(two.mean_spread)


def _or_inf(value: float) -> float:
    return inf if isnan(value) else value
