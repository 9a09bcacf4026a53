"""What a report says and draws: sentences that fit what happened, charts that lose no peak, a file
that is whole or not there.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulsar_rebalancer.lab.report.chart_data import comparison, extremes, peaks
from pulsar_rebalancer.lab.report.page import render, write_page
from pulsar_rebalancer.lab.report.timeline_summary import Summary
from pulsar_rebalancer.lab.report.verdict import ReportVerdict, judge_runs
from pulsar_rebalancer.lab.simulation.timeline import Kind, Membership, Move, Timeline
from strategies.cluster.model import Expected, Skip
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.round.commands_and_record import Proof
from tests.world import timelines
from tests.world.timelines import A, B

NOBODY = float("nan")
BUNDLE = "t/n/0x00000000_0x80000000"


def a_move(round_: int, source: str = A, destination: str = B, bundle: str = BUNDLE) -> Move:
    return Move(
        round_,
        60_000 * round_,
        bundle,
        source,
        destination,
        "transfer",
        "far-apart",
        "a is fuller than b",
        "applied",
        1e6,
    )


def a_run(
    *usage: tuple[float, float],
    moves: Sequence[Move] = (),
    kind: Kind = "simulated",
    title: str = "a run",
) -> Timeline:
    run = timelines.a_run(np.array(usage).reshape(-1, 2), moves, kind=kind, title=title)
    even = np.abs(run.usage[:, 0] - run.usage[:, 1]) < 0.15
    return replace(run, reached=even, goal="spread below 15 points")


def verdict(*runs: Timeline) -> ReportVerdict:
    return judge_runs([Summary(run) for run in runs])


def page_data(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def page_of(*runs: Timeline, title: str = "a test") -> str:
    return render(runs, title=title, made_by=title)


def shown(run: Timeline) -> Any:
    return page_data(page_of(run))["runs"][0]


def test_the_page_says_what_each_round_proves() -> None:
    proofs = {
        0: Proof(Certificate(0.8, 0.1, 0.0, 0.0), Forecast(), ()),
        1: Proof(Certificate(0.2, 0.1, 3e6, 2e6), Forecast(0.02), ()),
        2: Proof(Certificate(0.2, 0.1, 0.0, 0.0), Forecast(0.02), ()),
    }
    run = replace(a_run((0.9, 0.1), (0.9, 0.1), (0.5, 0.3)), proofs=proofs)

    found = shown(run)

    assert found["bound"] == {"t": [0, 60_000, 120_000], "y": [10.0, 10.0, 10.0]}
    assert found["proofs_total"] == 3
    first, second, third = (text for _, _, text in found["proofs"])
    assert first.startswith("Estimated spread 80.0 points: at most 70.0 above")
    assert second.endswith("are necessary. The last predictions were 2.0 points off on average.")
    assert third.endswith("can reach (10.0 or more)."), "the error is still that of the last moves"


def test_a_bound_of_0_is_neither_drawn_nor_listed() -> None:
    """The first round moves bundles and says what for; the second has nothing to say."""
    proofs = {
        0: Proof(Certificate(0.8, 0.0, 3e6, 2e6), None, ()),
        1: Proof(Certificate(0.2, 0.0, 0.0, 0.0), None, ()),
    }

    run = shown(replace(a_run(*[(0.9, 0.1)] * 2), proofs=proofs))

    assert run["bound"] == {"t": [], "y": []}
    assert ([round_ for _, round_, _ in run["proofs"]], run["proofs_total"]) == ([1], 1)


def test_a_run_whose_last_round_judged_nothing_is_not_called_unbalanced() -> None:
    waits = replace(a_run((0.9, 0.1), (0.6, 0.4)), unjudged="too few samples [a-code]")
    missed = a_run((0.9, 0.1), (0.6, 0.4), title="another run")

    one = verdict(waits)

    assert (one.level, one.detail) == ("unsure", "Not judged at the end: too few samples [a-code].")
    assert verdict(missed).detail.startswith("Not balanced at the end: ")
    assert verdict(missed, waits).detail.endswith(
        "Outside its own goal at the end: another run. Not judged at the end: a run."
    )


def test_of_many_rounds_the_page_keeps_those_with_moves_or_advice() -> None:
    quiet = Proof(Certificate(0.2, 0.1, 0.0, 0.0), None, ())
    full = Skip("cluster", ("c1",), "cluster-full", "add 2 brokers")
    proofs = dict.fromkeys(range(3_000), quiet) | {70: replace(quiet, advice=(full,))}
    run = replace(a_run(*[(0.5, 0.3)] * 3_000, moves=(a_move(40),)), proofs=proofs)

    found = shown(run)

    assert [round_ for _, round_, _ in found["proofs"]] == [41, 71]
    assert found["proofs"][1][2].endswith("Moves cannot help [cluster-full]: add 2 brokers.")
    assert found["proofs_total"] == 3_000


def test_a_run_without_certificates_proves_nothing() -> None:
    found = shown(a_run((0.9, 0.1)))
    assert (found["proofs"], found["bound"]) == ([], {"t": [], "y": []})


def test_tables_compare_returns_useless_moves_and_errors() -> None:
    there = replace(a_move(0), expected=Expected(0.9, 0.5, 0.1, 0.5))
    back = replace(a_move(3, B, A), expected=Expected(0.9, 0.5, 0.1, 0.5))
    uneven = [(0.9, 0.1)] * 3 + [(0.1, 0.9)] * 3
    run = a_run(*uneven, moves=(there, back), kind="re-assigned")
    table = comparison([Summary(run), Summary(replace(run, kind="recorded"))])
    assert table["heads"][-3:] == ["returns", "useless", "error"]
    assert [row[-3:] for row in table["rows"]] == [["1", "2", "40.0"], ["–", "–", "–"]]
    figures = Summary(run).as_json()
    assert (figures["returns"], figures["useless_moves"]) == (1, 2)
    assert figures["prediction_error_points"] == 40


THERE, BACK = a_move(0), a_move(1, B, A)
GONE = a_run((0.4, 0.4), (0.4, 0.4), (NOBODY, NOBODY), (NOBODY, NOBODY))
JOINED = Membership(60_000, B, "joined", "first report")
NO_BROKER = "From round 3 of 4 on there was no broker."
JUDGED: Mapping[str, tuple[Sequence[Timeline], str, str, str]] = {
    "evened out": (
        [a_run((0.9, 0.1), (0.5, 0.5), (0.5, 0.5), moves=[THERE])],
        "good",
        "The brokers evened out: the fullest and the emptiest were 80.0 points apart at first "
        "and 0.0 at the end. 1 bundle was moved (1.0 MB/s of traffic) in 3 rounds.*",
        "*",
    ),
    "without brokers, however good it began": ([GONE], "bad", NO_BROKER, "*"),
    "two without brokers": ([GONE, replace(GONE, title="another")], "bad", NO_BROKER, "*"),
    "they came back": ([a_run((0.4, 0.4), (NOBODY, NOBODY), (0.4, 0.4))], "good", "*", "*"),
    "no report": (
        [replace(GONE, kind="recorded")],
        "bad",
        "From round 3 of 4 on no broker's report could be used.",
        "*",
    ),
    "a few recorded rounds": (
        [a_run((0.9, 0.1), (0.5, 0.5), moves=[THERE], kind="re-assigned")],
        "unsure",
        "*",
        "2 rounds are too few to rely on. Balanced: *",
    ),
    "enough rounds": ([a_run(*[(0.5, 0.5)] * 60, kind="re-assigned")], "good", "*", "*"),
    "one broker": (
        [a_run((0.4, NOBODY), (0.9, NOBODY))],
        "unsure",
        "There was only one broker: no move was possible in 2 rounds.",
        "*",
    ),
    "even and full": (
        [a_run((0.99, 0.5), (0.9, 0.88), moves=[THERE])],
        "fair",
        "*",
        "Balanced, but full: the emptiest broker is at 88 %, which no move can change.",
    ),
    "to and fro": (
        [a_run((0.9, 0.1), (0.1, 0.9), (0.5, 0.5), moves=[THERE, BACK])],
        "fair",
        "*",
        "*1 move returned a bundle*",
    ),
    "a rise in between": (
        [replace(a_run((0.55, 0.5), (0.6, 0.1), (0.4, 0.3)), memberships=(JOINED,))],
        "good",
        "The fullest and the emptiest broker were 5.0 points apart at first, up to 50.0 in "
        f"between ({B} joined), and 10.0 at the end.*",
        "*",
    ),
    "an uneven end": ([a_run((0.5, 0.5), (0.9, 0.1))], "bad", "*", "*"),
    "always even": ([a_run((0.5, 0.45), (0.5, 0.45))], "good", "*Nothing was moved*", "*"),
    "recorded reports": (
        [a_run((0.9, 0.1), (0.9, 0.1), kind="recorded", moves=[THERE])],
        "open",
        "*would have commanded 1 move*",
        "*do not react*",
    ),
    "no round": ([a_run()], "bad", "*no round closed*", "*"),
}


@pytest.mark.parametrize(("runs", "level", "headline", "detail"), JUDGED.values(), ids=JUDGED)
def test_a_run_is_judged(runs: Sequence[Timeline], level: str, headline: str, detail: str) -> None:
    told = verdict(*runs)
    assert told.level == level
    assert fnmatchcase(told.headline, headline), told.headline
    assert fnmatchcase(told.detail, detail), told.detail


def test_the_next_step_of_a_short_recording_and_of_a_full_cluster() -> None:
    short = verdict(a_run((0.9, 0.1), (0.5, 0.5), moves=[THERE], kind="re-assigned"))
    assert short.next[0].command == "rebalancer record week.parquet --follow"
    full = verdict(a_run((0.99, 0.5), (0.9, 0.88), moves=[THERE]))
    assert full.next[-1].text.startswith("Add brokers")


def test_of_several_runs_the_evenest_and_the_calmest_are_named() -> None:
    busy = a_run(
        (0.9, 0.1),
        (0.5, 0.5),
        (0.5, 0.5),
        moves=(a_move(0), a_move(1, bundle="t/n/0x80000000_0xffffffff")),
        title="busy",
    )
    calm = a_run((0.9, 0.1), (0.9, 0.1), (0.6, 0.5), moves=(a_move(1),), title="calm")
    assert verdict(busy, calm).headline.startswith("busy kept the brokers most even")
    assert "calm moved least: 1 move" in verdict(busy, calm).headline


def test_runs_that_do_not_differ_are_not_ranked() -> None:
    same = [
        a_run((0.9, 0.1), (0.5, 0.5), moves=(a_move(0),), title=title) for title in ("one", "other")
    ]
    assert verdict(*same).headline.startswith("Both did the same")


def test_a_short_recording_is_too_little_to_choose_by() -> None:
    short = [
        a_run((0.9, 0.1), (0.5, 0.5), kind="re-assigned", moves=(a_move(0),), title=title)
        for title in ("one", "other")
    ]
    told = verdict(*short)
    assert told.level == "unsure"
    assert told.detail.startswith("2 rounds are too few to rely on.")
    assert told.next[0].command.startswith("rebalancer record")


def test_strategies_with_goals_of_their_own_are_compared_without_a_mark_for_being_content() -> None:
    one, other = (
        replace(a_run((0.9, 0.1), (0.5, 0.5), title=goal, moves=(a_move(0),)), goal=goal)
        for goal in ("low", "high")
    )
    assert verdict(one, other).level == "compared"
    assert (
        comparison([Summary(one), Summary(replace(other, reached=np.zeros(2, dtype=np.bool_)))])[
            "best"
        ][4]
        == []
    )


def test_a_peak_of_one_round_and_a_gap_survive_thinning() -> None:
    values = np.zeros(100_000)
    values[54_321], values[12_345] = 1.0, -1.0
    kept = extremes(values, 100)
    assert {54_321, 12_345} <= set(kept.tolist())
    assert len(kept) <= 400
    assert peaks(values[:, None], 100)[1].max() == 1.0
    values[5_000] = np.nan
    assert 5_000 in extremes(values, 50)


def test_no_move_is_lost_in_the_bins() -> None:
    moves = [a_move(row) for row in (0, 0, 7, 1_199)]
    moved = shown(a_run(*[(0.5, 0.5)] * 1_200, moves=moves))["churn"]["moved"]
    assert (moved[0], moved[-1], sum(moved)) == (3, 1, 4)


def test_the_page_is_the_same_bytes_each_time_and_refers_to_nothing_outside() -> None:
    run = a_run((0.9, 0.1), (0.5, 0.5), moves=(a_move(0),))
    page = page_of(run)
    assert page == page_of(run)
    # The library's own text names addresses; what a browser would load is an attribute.
    head = page.partition("<script")[0]
    assert not re.search(r"(src|href)=\"(?!#)", head)
    assert "default-src 'none'" in head


def test_figures_that_nobody_knows_are_null_and_the_json_is_legal() -> None:
    assert shown(a_run((0.9, NOBODY), (0.5, 0.5)))["usage"]["lines"][1]["y"] == [None, 50.0]


def test_a_name_that_looks_like_markup_stays_inside_the_data() -> None:
    nasty = "</script><!--<script>&lt;"
    page = page_of(a_run((0.9, 0.1), (0.5, 0.5), title=nasty), a_run((0.5, 0.5)), title=nasty)
    data = page_data(page)
    assert (data["title"], data["made_by"], data["runs"][0]["title"]) == (nasty, nasty, nasty)
    assert nasty not in page


def test_a_report_that_cannot_be_finished_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError):
        write_page(tmp_path / "report.html", page_of(a_run((0.5, 0.5))))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
