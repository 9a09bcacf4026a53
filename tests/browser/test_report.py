"""The report in a real browser: charts are drawn, reasons are found by mouse and by keyboard,
phones and dark rooms are served.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import ElementHandle, Locator, Page, TimeoutError

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.lab.report.page import PageTable, render, write_page
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import EngineDecider, closed_loop
from pulsar_rebalancer.lab.simulation.timeline import Membership, Move, Timeline, Tracer
from strategies.cluster.model import LARGEST_TIME
from strategies.fold.engine import EngineSettings
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.threshold.settings import ThresholdSettings
from tests.browser.conftest import Open
from tests.chromium import DESKTOP, PHONE
from tests.lab.test_cli_advise import SCRIPT, hostile, log
from tests.unit.command_line import rebalancer
from tests.world import timelines
from tests.world.uneven_log import recorded, uneven

pytestmark = [pytest.mark.lab, pytest.mark.browser]
ROUNDS = 12
ADVICE = ["Brokers", "Bundles", "Partitions", "When"]
#: A4 between its margins, in pixels of a style sheet.
PAPER: dict[str, object] = {"viewport": {"width": 720, "height": 1_000}}
#: As the demo has them.
SETTINGS = {
    "avg": AvgSettings(max_unload=0.5),
    "threshold": ThresholdSettings(),
    "steady": SteadySettings(),
}


def a_run(strategy: str = "avg", bundles: int = 64) -> Timeline:
    goal, given = "spread below 15 points", {"shedding.strategy": strategy}
    start = Timeline(strategy, "simulated", f"{strategy}/fixed", goal=goal, settings=given)
    tracer = Tracer(start)
    decider = EngineDecider(EngineSettings(strategy=strategy, shedding=SETTINGS[strategy]))
    loop = closed_loop(skewed_cluster("c1", 1, bundles), decider)
    for _, step in zip(range(ROUNDS), loop, strict=False):
        tracer.round(step.round, step.commands, reached=step.round.spread.range < 0.15)
        for outcome in step.outcomes:
            tracer.outcome(outcome)
    return tracer.timeline(bundles)


def a_month() -> Timeline:
    """Waves with one peak that lasts a single round; long reasons, as real ones are."""
    brokers, rounds, moves = 100, 43_200, 20_000
    minutes = np.arange(rounds)
    daily = 0.4 + 0.2 * np.sin(minutes / 1440 * 2 * np.pi)
    usage = daily[:, None] + 0.1 * np.sin(minutes[:, None] / 97 + np.arange(brokers)[None, :])
    usage[12_345, 42] = 0.987
    names = tuple(f"broker-{number}.pulsar.example.org:8080" for number in range(brokers))
    places = np.linspace(0, rounds - 1, moves).astype(int)
    reason = (
        "broker-{} at {:.1f} % is 12.3 points above the mean of 43.2 %: at least 14.7 MB/s of the "
        "222.9 MB/s should leave"
    )
    asked = tuple(
        Move(
            round=place,
            ts=60_000 * place,
            bundle=f"tenant/namespace-{place % 7}/0x{place % 4096:08x}_0xffffffff",
            source=names[place % brokers],
            destination=names[(place + 1) % brokers],
            kind="transfer",
            code="above-average",
            reason=reason.format(place % brokers, 40 + place % 60),
            traffic=float(place),
        )
        for place in map(int, places)
    )
    joined = (Membership(60_000 * 20_000, names[-1], "joined", "first report"),)
    return replace(
        timelines.a_run(usage, asked, kind="re-assigned", title="a month"),
        strategy="threshold/fixed",
        brokers=names,
        reached=np.ones(rounds, dtype=np.bool_),
        memberships=joined,
    )


def written(
    folder: Path,
    runs: Sequence[Timeline],
    said: str = "a test",
    scenes: Sequence[str] = (),
    tables: Sequence[PageTable] = (),
) -> Path:
    path = folder / "report.html"
    write_page(path, render(runs, title=said, made_by=said, scenes=scenes, tables=tables))
    return path


def pointed_at(page: Page, mark: Locator) -> ElementHandle:
    """What is told of a mark; the chart overlooks a pointer that comes while it is still busy, so
    it comes again.
    """
    for _ in range(60):
        mark.hover(force=True)
        with suppress(TimeoutError):
            told = page.wait_for_selector("#usage .hoverlayer .hovertext", timeout=2_000)
            assert told is not None
            return told
        page.mouse.move(0, 0)
    raise AssertionError("pointing at a mark tells nothing")


def test_the_first_screen_says_what_happened_whether_it_was_good_and_what_to_do(
    tmp_path: Path, open_page: Open
) -> None:
    page = open_page(written(tmp_path, [a_run()]))
    assert "bundles of 64 were moved" in page.inner_text("h1")
    assert page.inner_text("#badge") == "✓ Good"
    assert page.locator("#next li").count() > 0
    bottom = page.locator("#verdict").bounding_box()
    assert bottom is not None
    assert bottom["y"] + bottom["height"] < 900


def test_charts_are_drawn_and_pointing_at_a_mark_tells_the_reason(
    tmp_path: Path, open_page: Open
) -> None:
    run = a_run()
    page = open_page(written(tmp_path, [run]))
    assert page.locator("#usage .scatterlayer .trace").count() == len(run.brokers) + 1
    assert page.locator("#spread .barlayer .point").count() > 0
    mark = page.locator("#usage .scatterlayer .trace").last.locator(".point").first
    lines = "node => [...node.querySelectorAll('tspan.line')].map((line) => line.textContent)"
    shown = " ".join(" ".join(pointed_at(page, mark).evaluate(lines)).split())
    assert run.moves[0].reason.split(":8080")[0] in shown


def test_what_each_round_proves_is_listed_and_its_bound_is_drawn(
    tmp_path: Path, open_page: Open
) -> None:
    """Of 24 bundles, some are so large that no assignment is even."""
    page = open_page(written(tmp_path, [a_run("steady", 24), a_run("avg")]))
    assert page.is_visible("#proven")
    assert page.locator("#proofs tbody tr").count() == ROUNDS
    assert "at most" in page.locator("#proofs tbody tr").first.inner_text()
    assert page.locator("#spread .scatterlayer .trace").count() == 2
    page.focus("#choice input >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.is_hidden("#proven"), "AvgShedder has no certificates"
    assert page.locator("#spread .scatterlayer .trace").count() == 1


def test_arrow_keys_step_from_move_to_move_and_tell_the_reason(
    tmp_path: Path, open_page: Open
) -> None:
    run = a_run()
    page = open_page(written(tmp_path, [run]))
    page.focus("#usage")
    page.keyboard.press("ArrowRight")
    assert run.moves[0].reason in page.inner_text("#move-text")
    page.keyboard.press("ArrowRight")
    assert f"Move 2 of {len(run.moves)}" in page.inner_text("#move-text")
    assert run.moves[1].bundle in page.inner_text("#move-text")


def test_several_runs_are_compared_and_one_is_chosen_by_keyboard(
    tmp_path: Path, open_page: Open
) -> None:
    page = open_page(written(tmp_path, [a_run("avg"), a_run("threshold")]))
    assert page.locator("#comparison tbody tr").count() == 2
    page.focus("#choice input >> nth=0")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#kind").startswith("threshold: ")
    settings = page.locator("#settings tbody tr").inner_text()
    assert settings.split() == ["shedding.strategy", "threshold"]


def test_of_several_scenarios_one_is_chosen_and_its_runs_are_drawn(
    tmp_path: Path, open_page: Open
) -> None:
    columns, row = ["scenario", "strategy", "spread"], ["one", "avg", "5"]
    sheet = PageTable("All of them", "how it was measured", columns, [row], [[], [], [0]], names=2)
    runs = [a_run("avg"), a_run("threshold"), a_run("threshold")]
    page = open_page(written(tmp_path, runs, scenes=["one", "one", "two"], tables=[sheet]))
    assert page.locator("#tables tbody tr").inner_text().split() == ["one", "avg", "●", "5"]
    assert not page.locator("#comparison-frame").is_visible()
    traces, choices = page.locator("#overlay .scatterlayer .trace"), page.locator("#choice label")
    assert (traces.count(), choices.count()) == (2, 2)
    page.select_option("#scene", "two")
    assert page.inner_text("#kind").startswith("two, threshold: ")
    assert (traces.count(), choices.count()) == (1, 1)


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_screen(
    tmp_path: Path, open_page: Open, device: dict[str, object]
) -> None:
    page = open_page(written(tmp_path, [a_run("avg"), a_run("threshold")]), device)
    chart = "document.querySelector('#usage .main-svg').getBoundingClientRect().width"
    for width in ("document.documentElement.scrollWidth", chart):
        assert page.evaluate(f"{width} <= window.innerWidth")


def test_on_a_phone_the_reason_of_a_move_is_read_without_pushing_anything_aside(
    tmp_path: Path, open_page: Open
) -> None:
    page = open_page(written(tmp_path, [a_run()]), PHONE)
    box = page.locator("#moves td.text").first.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= page.evaluate("window.innerWidth")


def test_no_table_is_wider_than_the_paper(tmp_path: Path, open_page: Open) -> None:
    page = open_page(written(tmp_path, [a_run(), a_run("threshold")]), PAPER)
    page.emulate_media(media="print")
    wide = "table => table.scrollWidth > table.parentElement.clientWidth"
    too_wide = f"tables => tables.filter({wide}).map(table => table.id)"
    assert page.eval_on_selector_all("table", too_wide) == []


def test_in_the_dark_page_and_charts_are_dark_and_on_paper_they_are_light(
    tmp_path: Path, open_page: Open
) -> None:
    page = open_page(written(tmp_path, [a_run()]), color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    chart = "document.querySelector('#usage .main-svg').style.background"
    assert page.evaluate(background) == page.evaluate(chart) == "rgb(15, 20, 25)"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate(chart) == "rgb(255, 255, 255)"


def test_a_month_of_a_hundred_brokers_fits_and_keeps_its_peak(
    tmp_path: Path, open_page: Open
) -> None:
    path = written(tmp_path, [a_month()])
    assert path.stat().st_size < 8_000_000
    page = open_page(path)
    highest = page.evaluate("Math.max(...document.getElementById('usage').data[0].z[42])")
    assert highest == pytest.approx(98.7)
    assert "Of 20000 moves" in page.inner_text("#moves-hint")


def moved_to(lines: Sequence[bytes], last_ms: int) -> list[bytes]:
    """The same records at another time: the last of them at `last_ms`, in milliseconds since
    1970.
    """
    trees = [json.loads(line) for line in lines]
    later = last_ms - max(tree["ts"] for tree in trees)
    return [json.dumps({**tree, "ts": tree["ts"] + later}).encode() for tree in trees]


@pytest.mark.parametrize(
    ("last_ms", "beyond"),
    [(LARGEST_TIME, (LARGEST_TIME + 1, 2**53 - 1, 2**53, 2**63 - 1)), (253_402_300_800_000, ())],
    ids=["last-of-dates", "year-10000"],
)
def test_a_report_of_extreme_times_opens(
    tmp_path: Path, open_page: Open, last_ms: int, beyond: tuple[int, ...]
) -> None:
    """Up to the last moment of a JavaScript date; what is later is refused, and the rest is
    drawn.
    """
    recording, path = tmp_path / "extreme.jsonl", tmp_path / "report.html"
    lines = moved_to(uneven(rounds=8), last_ms)
    later = [line for ts in beyond for line in moved_to(lines[-1:], ts)]
    recording.write_bytes(b"".join(line + b"\n" for line in [*lines, *later]))
    done = rebalancer("replay", recording, "--json", "--html", path)
    assert done.code == exit_codes.OK, done.err
    assert done.json["rejected"]["total"] == len(beyond)
    page = open_page(path)
    assert page.locator("#usage .scatterlayer .trace").count() > 1
    assert "Invalid Date" not in page.inner_text("body")
    assert "NaN" not in page.inner_text("body")
    axis = page.evaluate(
        "document.getElementById('usage').layout.xaxis.range.map(at => new Date(at).getTime())"
    )
    assert all(isinstance(at, (int, float)) for at in axis)


@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_page_of_advice_has_its_first_sentence_its_charts_and_nothing_of_runs(
    tmp_path: Path, open_page: Open, device: dict[str, object]
) -> None:
    path = tmp_path / "advice.html"
    lines = hostile(log(lambda at, minute: 800.0))
    done = rebalancer("advise", recorded(tmp_path, lines), "--html", path)
    assert done.code == exit_codes.OK, done.err
    page = open_page(path, device)
    assert page.inner_text("h1").startswith(f"The Pulsar cluster {SCRIPT} has 4 servers (brokers)")
    assert page.locator("#chart-0 .scatterlayer .trace").count() == 2
    assert page.locator("#chart-3 .barlayer .point path").count() == 24
    assert page.locator("h2:visible").all_inner_texts() == ADVICE
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_names_are_text_and_never_markup(tmp_path: Path, open_page: Open) -> None:
    nasty = "</script><img src=x onerror=alert(1)>"
    told = Timeline(
        nasty, "simulated", "avg/fixed", goal=nasty, settings={nasty: nasty}, notes=(nasty,)
    )
    page = open_page(written(tmp_path, [Tracer(told).timeline(), a_run()], nasty))
    assert page.locator("img").count() == 0
    assert nasty in page.inner_text(".title")
