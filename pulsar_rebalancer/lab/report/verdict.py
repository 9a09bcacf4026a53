"""The verdict at the top of the report: what happened, whether it was good, and the next steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Literal

from pulsar_rebalancer.decisions.skip_and_certificate_texts import data_rate, figure, number
from pulsar_rebalancer.lab.report.timeline_summary import Summary, duration, points, share

#: `open`: recorded reports, which do not react to moves; `compared`: a comparison that leaves the
#: choice to the reader; `advice`: an answer without a run; `unsure`: too little data for a verdict.
Level = Literal["good", "fair", "bad", "open", "compared", "advice", "unsure"]
#: Minimum number of rounds for a reliable difference.
FEW_ROUNDS = 60
#: The headline mentions a spread that exceeds the first and the last one by this number of points.
_HIGHER = 5.0
#: Usage in percent above which a broker is overloaded by Pulsar's default.
_FULL = 85.0
#: A run is restless if more than this part of its moves is of bundles that moved before.
_RESTLESS = 0.25


@dataclass(frozen=True, slots=True)
class NextStep:
    """A next step; `command`: the command line for it, empty if there is none."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """`headline`: what happened; `detail`: why it is good or not; `next`: next steps."""

    level: Level
    headline: str
    detail: str
    next: tuple[NextStep, ...]


_LONGER = NextStep(
    "Record for an hour or more, then repeat this.", "rebalancer record week.parquet --follow"
)


def judge_runs(runs: Sequence[Summary], steps: Sequence[NextStep] = ()) -> ReportVerdict:
    """The verdict on one run, or on a comparison. `steps`: next steps of the caller; by default
    those that follow from the verdict.
    """
    known = [run for run in runs if run.run.rounds]
    if not known:
        return ReportVerdict(
            "bad",
            "Nothing was decided: no round closed.",
            "The recording has no load reports of two brokers, or is too short for a round.",
            (
                *steps,
                NextStep(
                    "Check the content of the recording; a round closes once a minute by "
                    "default (round.interval_ms)."
                ),
            ),
        )
    hopeless = [_without_choice(run, steps) for run in known]
    if all(hopeless):
        return hopeless[0] or _of_one(known[0], steps)
    if len(known) > 1:
        return _of_several(known, steps)
    judged = _of_one(known[0], steps)
    return (
        _with_warning(judged, known[0].run.rounds) if known[0].run.kind == "re-assigned" else judged
    )


def _with_warning(judged: ReportVerdict, rounds: int) -> ReportVerdict:
    """The verdict with a warning if the recording is too short."""
    if rounds >= FEW_ROUNDS:
        return judged
    detail = (
        f"{number(rounds, 'round')} {'is' if rounds == 1 else 'are'} too few to rely on. "
        f"{judged.detail}"
    )
    return replace(judged, level="unsure", detail=detail, next=(_LONGER, *judged.next))


def _without_choice(run: Summary, steps: Sequence[NextStep]) -> ReportVerdict | None:
    """The verdict on a run without brokers, or with a single one; None otherwise."""
    if run.deserted_row is not None and run.run.kind in ("recorded", "re-assigned"):
        return ReportVerdict(
            "bad",
            f"From round {run.deserted_row + 1} of {run.run.rounds} on no broker's report could "
            "be used.",
            "Reports are missing, too old or out of order; without them there are no decisions.",
            (*steps, NextStep("See the error of each record.", "rebalancer replay RECORDING")),
        )
    if run.deserted_row is not None:
        return ReportVerdict(
            "bad",
            f"From round {run.deserted_row + 1} of {run.run.rounds} on there was no broker.",
            "No broker served the bundles, and no move was possible: figures after that have no "
            "meaning.",
            (*steps, NextStep("See below when the last brokers left, and why.")),
        )
    if run.most_brokers == 1:
        return ReportVerdict(
            "unsure",
            "There was only one broker: no move was possible in "
            f"{number(run.run.rounds, 'round')}.",
            "Load is balanced between brokers; with a single one there is nothing to decide.",
            (*steps, NextStep("Repeat this with the reports of two brokers or more.")),
        )
    return None


def _of_one(run: Summary, steps: Sequence[NextStep]) -> ReportVerdict:
    if run.run.kind == "recorded":
        return _of_recording(run, steps)
    headline = f"{_what_happened(run)} {_effort(run)}"
    if not run.met_goal_at_end:
        return _of_unbalanced(run, headline, steps)
    if run.least_at_end >= _FULL:
        return ReportVerdict(
            "fair",
            headline,
            f"Balanced, but full: the emptiest broker is at {run.least_at_end:.0f} %, which no "
            "move can change.",
            (
                *steps,
                NextStep(
                    "Add brokers or reduce the traffic, so that the strategy finds "
                    "destinations with room."
                ),
            ),
        )
    restless = _restlessness(run)
    if restless:
        return ReportVerdict(
            "fair",
            headline,
            f"Balanced, but restless: {restless}.",
            (
                *steps,
                NextStep(
                    "Use steadier settings: more rounds of evidence before a move, or a higher "
                    "threshold. `rebalancer tune` tries them."
                ),
            ),
        )
    if not run.moves:
        stayed = "stayed" if run.reached_share == 1 else "came"
        return ReportVerdict(
            "good",
            headline,
            f"The cluster {stayed} within the strategy's goal by itself; no move was needed.",
            tuple(steps) or (NextStep("Nothing needs to be done."),),
        )
    return ReportVerdict(
        "good",
        headline,
        f"Balanced: {_when_settled(run)}, and no bundle was moved back and forth.",
        tuple(steps) or (NextStep("Keep these settings; see the moves below for their reasons."),),
    )


def _of_recording(run: Summary, steps: Sequence[NextStep]) -> ReportVerdict:
    span = duration(round(run.days * 86_400_000))
    ask = (
        f"would have commanded {number(run.commands, 'move')}"
        if run.commands
        else "would have moved nothing"
    )
    headline = (
        f"In these {span}, {run.run.strategy} {ask}; the spread was {points(run.mean_spread)} on "
        "average."
    )
    detail = (
        "Recorded reports do not react to decisions, so the same imbalance recurs in every round. "
        "The charts show when and why the strategy would have acted, not the effect."
    )
    more = NextStep(
        "To see the effect, run a closed loop, in which the recorded loads follow the moves.",
        "rebalancer backtest RECORDING",
    )
    return ReportVerdict("open", headline, detail, tuple(steps) or (more,))


def _of_unbalanced(run: Summary, headline: str, steps: Sequence[NextStep]) -> ReportVerdict:
    if run.run.unjudged:
        advice = NextStep("Use more rounds, so that the strategy can judge the last ones.")
        detail = f"Not judged at the end: {run.run.unjudged}."
        return ReportVerdict("unsure", headline, detail, (*steps, advice))
    detail = (
        f"Not balanced at the end: the last round missed the goal ({run.run.goal}). "
        f"{share(run.reached_share)} of the rounds met it."
    )
    level: Level = "fair" if run.reached_share >= 0.9 else "bad"
    if run.moves:
        advice = NextStep(
            "See the last rounds below: if they still have moves, the strategy needs more "
            "time; if not, it finds no move."
        )
    else:
        advice = NextStep(
            "There was no move: check the settings below for thresholds that prevent it, or "
            "try another strategy."
        )
    return ReportVerdict(level, headline, detail, (*steps, advice))


def _of_recorded(runs: Sequence[Summary], steps: Sequence[NextStep]) -> ReportVerdict:
    asks = ", ".join(f"{run.run.title} {run.commands:,}" for run in runs)
    detail = (
        "Recorded reports do not react to decisions: this compares how often each strategy "
        "would have acted, not the effect."
    )
    more = NextStep(
        "To compare the effect, run a closed loop, in which the recorded loads follow the moves.",
        "rebalancer backtest RECORDING",
    )
    headline = f"Moves that would have been commanded: {asks}."
    return ReportVerdict("open", headline, detail, tuple(steps) or (more,))


def _of_several(runs: Sequence[Summary], steps: Sequence[NextStep]) -> ReportVerdict:
    if runs[0].run.kind == "recorded":
        return _of_recorded(runs, steps)
    evenest = min(runs, key=lambda run: (_or_inf(run.mean_spread), len(run.moves)))
    calmest = min(runs, key=lambda run: (len(run.moves), _or_inf(run.mean_spread)))
    said = (
        f"{evenest.run.title} kept the brokers most even: {points(evenest.mean_spread)} of spread "
        "on average"
    )
    effort = f"with {number(len(evenest.moves), 'move')}"
    if not any(_differ(evenest, run) for run in runs):
        who = "Both" if len(runs) == 2 else f"All {len(runs)}"
        headline = (
            f"{who} did the same: {points(evenest.mean_spread)} of spread on average, {effort}."
        )
        detail = "On this data, the choice makes no difference."
        if not evenest.moves:
            steps = steps or (
                NextStep(
                    "To see whether another threshold would have acted, change one in the "
                    "settings of a run."
                ),
            )
    elif evenest is calmest:
        headline = f"{said}, {effort}, the fewest of all {len(runs)}."
        detail = "No other run had a lower spread or fewer moves."
    else:
        headline = (
            f"{said}, {effort}; {calmest.run.title} moved least: "
            f"{number(len(calmest.moves), 'move')} for {points(calmest.mean_spread)}."
        )
        detail = (
            "Every move interrupts the clients of its bundle for a moment, so the choice is "
            "yours: the table compares both."
        )
    missed = [run.run for run in runs if not run.met_goal_at_end]
    for what, titles in (
        ("Outside its own goal", [one.title for one in missed if not one.unjudged]),
        ("Not judged", [one.title for one in missed if one.unjudged]),
    ):
        if titles:
            detail += f" {what} at the end: {', '.join(titles)}."
    level: Level = (
        "compared"
        if len({run.run.goal for run in runs}) > 1 or not evenest.moves
        else _level(evenest)
    )
    look = tuple(steps) or (
        NextStep(f"Choose a run below to see its moves; start with {evenest.run.title}."),
    )
    rounds = max(run.run.rounds for run in runs)
    if runs[0].run.kind != "re-assigned":
        return ReportVerdict(level, headline, detail, look)
    return _with_warning(ReportVerdict(level, headline, detail, look), rounds)


def _level(run: Summary) -> Level:
    return "good" if run.met_goal_at_end and not _restlessness(run) else "fair"


def _what_happened(run: Summary) -> str:
    first, last = run.first_spread, run.last_spread
    if abs(first - last) < 0.05:
        return f"The brokers' usage stayed {points(last)} apart."
    verb = "evened out" if last < first else "drifted apart"
    most = run.most_spread
    if most > max(first, last) + _HIGHER:
        between = f", up to {figure(most)} in between{_membership_changes(run)},"
        return (
            f"The fullest and the emptiest broker were {points(first)} apart at first{between} "
            f"and {figure(last)} at the end."
        )
    return (
        f"The brokers {verb}: the fullest and the emptiest were {points(first)} apart at first "
        f"and {figure(last)} at the end."
    )


def _membership_changes(run: Summary) -> str:
    """The broker that joined or left if there is one, otherwise the number of such brokers."""
    changes = run.run.memberships
    if len(changes) != 1:
        return f" ({number(len(changes), 'broker')} joined or left)" if changes else ""
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
        return (
            f"{number(run.returned, 'move')} returned a bundle to the broker that it had just left"
        )
    moves = len(run.moves)
    if moves and run.repeated > _RESTLESS * moves:
        return f"{number(run.repeated, 'bundle')} moved more than once"
    return ""


def _when_settled(run: Summary) -> str:
    row = run.settled_row
    if not row:
        return "every round was within the goal"
    return (
        f"within the goal from round {row + 1} on, "
        f"{duration(int(run.run.times_ms[row] - run.run.times_ms[0]))} after the start"
    )


def _differ(one: Summary, two: Summary) -> bool:
    """Whether the page shows different figures for two runs."""
    return len(one.moves) != len(two.moves) or points(one.mean_spread) != points(two.mean_spread)


def _or_inf(value: float) -> float:
    return inf if isnan(value) else value
