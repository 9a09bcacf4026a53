"""The live page in a real browser: what it shows, by mouse, keyboard and phone, and that names are
text everywhere.
"""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.wire.record_decoding import decode_approval
from sinks.wire.record_encoding import encode_round
from strategies.cluster.model import Round, Skip
from strategies.cluster.round_figures import RoundState
from tests.browser.conftest import Open
from tests.chromium import DESKTOP, PHONE
from tests.control_topic import now_ms
from tests.live_server import OPERATOR, VIEWER, RunningPage, page_of
from tests.live_topics import MadeUpCluster, publish
from tests.telemetry_lines import T0, load_report, sweep
from tests.unit.test_raised import BROKERS, raising
from tests.world.little_cluster import LittleCluster

pytestmark = pytest.mark.browser
HOSTILE = "<img/src=x/onerror=alert(1)>"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPage]:
    """Two clusters: a small one whose plan waits, and one of 300 brokers."""
    folder = tmp_path_factory.mktemp("live")
    publish(folder, MadeUpCluster(now_ms()))
    publish(folder, MadeUpCluster(now_ms(), cluster="staging", brokers=300, rounds=90, waits=False))
    with page_of(folder, clusters=2) as page:
        yield page


def add_round(folder: Path, done: Round) -> None:
    with FileTopicWriter(folder / "rounds") as topic:
        topic.append([encode_round(done)])


def one_round_more(folder: Path, made: MadeUpCluster, *, waits: bool = True) -> None:
    """Another minute of the cluster; commands that wait."""
    later = replace(made, now_ms=made.now_ms + 60_000, rounds=made.rounds + 1, waits=waits)
    publish(folder, later, only_newest=1)


def drawn(page: Page) -> Page:
    page.locator("html[data-drawn]").wait_for()
    page.locator("#history .row").first.wait_for()
    return page


@pytest.fixture
def live(running: RunningPage, open_live: Open) -> Page:
    """That page on a desktop."""
    return drawn(open_live(running))


def test_the_first_screen_says_the_state_what_to_do_and_when(live: Page) -> None:
    assert live.inner_text("#badge") == "▶ Acting"
    assert live.inner_text("#state") == "The round has 4 commands: 4 transfers."
    assert "executors apply the commands" in live.inner_text("#advice")
    assert live.inner_text("#newest").startswith("Round 60 of epoch 1, ")
    processes = [text.split("\n")[0] for text in live.locator(".process").all_inner_texts()]
    assert processes == ["Collector", "Job", "Executor"]
    bottom = live.locator("#health").bounding_box()
    assert bottom is not None
    assert bottom["y"] + bottom["height"] < 900, "state and health are on the first screen"


def test_brokers_moves_plan_and_history_are_there(live: Page) -> None:
    assert live.locator("#brokers .row").count() == 8
    assert live.locator("#plan tbody tr").count() == 4
    assert live.locator("#lines path").count() == 8
    assert "#60" in live.locator("#history .row").first.inner_text()
    assert "4 waiting" in live.locator("#history .row").first.inner_text()
    assert live.locator("#moves canvas").count() == 1
    assert live.locator("[id^=approve-]").count() == 0, "no approvals needed"
    assert live.locator("#pause-executor").count() == 0, "nobody can pause without a token file"
    assert "needs no approval" in live.inner_text(".words")


def test_a_search_answers_why_and_a_click_on_a_broker_does(live: Page) -> None:
    live.keyboard.press("/")
    live.keyboard.type("broker-3.pulsar.example.org")
    live.keyboard.press("Enter")
    expect(live.locator("#answer-title")).to_have_text(
        "Why: broker broker-3.pulsar.example.org:8080"
    )
    assert "usage " in live.inner_text("#answer-lines")
    live.keyboard.press("Escape")
    assert live.is_hidden("#answer")
    live.locator("#brokers .row").first.click()
    expect(live.locator("#answer-title")).to_contain_text("Why: broker ")
    live.locator("#history .row").first.click()
    expect(live.locator("#answer-title")).to_have_text("Why: round 60")
    live.fill("#subject", "no-such-thing")
    live.press("#subject", "Enter")
    expect(live.locator("#answer-title")).to_have_text("No answer")
    assert "do not mention it" in live.inner_text("#answer-lines")


def test_charts_and_lists_are_walked_by_keyboard(live: Page) -> None:
    live.focus("#heat canvas")
    live.keyboard.press("ArrowLeft")
    live.keyboard.press("ArrowDown")
    live.keyboard.press("ArrowLeft")
    assert live.locator("#said").text_content() == live.inner_text("#tip")
    assert "broker-1: " in live.inner_text("#tip")
    assert "round 59" in live.inner_text("#tip")
    live.keyboard.press("Enter")
    expect(live.locator("#answer-title")).to_contain_text("Why: broker broker-1.")
    live.focus("#history")
    live.keyboard.press("ArrowDown")
    live.keyboard.press("End")
    focused = live.evaluate("document.activeElement.textContent")
    assert "#1" in focused
    assert live.evaluate("document.activeElement.getAttribute('aria-posinset')") == "60"


def test_each_picture_has_a_name_and_a_table(live: Page) -> None:
    for canvas in live.locator("canvas").all():
        assert "Arrow keys" in (canvas.get_attribute("aria-label") or "")
    for name, rows in (("usage", 8), ("moves", 16)):
        live.locator(f"#{name}-table summary").click()
        expect(live.locator(f"#{name}-table tbody tr")).to_have_count(rows)
    unnamed = live.evaluate(
        "[...document.querySelectorAll('button, input, select, [role=img]')]"
        ".filter((one) => one.offsetParent && !(one.textContent.trim() || one.ariaLabel"
        " || one.labels?.length)).map((one) => one.outerHTML)"
    )
    assert unnamed == []


def test_many_brokers_are_a_profile_a_short_list_and_a_map(live: Page) -> None:
    live.locator("#clusters button", has_text="staging").click()
    expect(live.locator("#brokers-note")).to_contain_text("300 brokers")

    assert live.locator("#brokers .row").count() < 40
    assert live.locator("#profile svg").count() == 1
    assert "each row is the highest of 2 brokers" in live.inner_text("#usage-note")
    assert live.locator("#lines path").count() == 5
    live.focus("#brokers")
    live.keyboard.press("End")
    assert live.evaluate("document.activeElement.getAttribute('aria-posinset')") == "300"
    assert live.url.endswith("#staging")


def test_a_new_round_appears_by_itself(tmp_path: Path, open_live: Open) -> None:
    made = MadeUpCluster(now_ms() - 60_000, waits=False)
    publish(tmp_path, made)
    with page_of(tmp_path) as running:
        page = drawn(open_live(running))
        expect(page.locator("#newest")).to_contain_text("Round 60 ")
        page.focus("#subject")
        one_round_more(tmp_path, made)
        expect(page.locator("#newest")).to_contain_text("Round 61 ")
        expect(page.locator("#plan tbody tr")).to_have_count(4)
        expect(page.locator("#history .row").first).to_contain_text("#61")
        assert page.evaluate("document.activeElement.id") == "subject", "focus stays"


def test_a_round_that_was_set_aside_shows_why_and_no_figures(
    tmp_path: Path, open_live: Open
) -> None:
    made = MadeUpCluster(now_ms())
    publish(tmp_path, replace(made, now_ms=made.now_ms - 60_000, waits=False))
    set_aside = LittleCluster(BROKERS, raising("c", 5)).passes()
    cluster, number, ts = made.cluster, made.rounds + 1, made.now_ms
    add_round(tmp_path, replace(set_aside, cluster=cluster, epoch=1, round=number, ts=ts))
    with page_of(tmp_path) as running:
        page = drawn(open_live(running))
        expect(page.locator("#badge")).to_contain_text("Set aside")
        expect(page.locator("#state")).to_contain_text("a rule failed: ZeroDivisionError")
        expect(page.locator("#brokers-note")).to_have_text("The newest round has no figures.")
        assert page.locator("#tiles .figure").all_inner_texts()[:3] == ["0", "–", "–"]
        assert page.is_hidden("#brokers")


def test_a_restart_of_the_server_is_survived_with_the_whole_history(
    tmp_path: Path, open_live: Open
) -> None:
    made = MadeUpCluster(now_ms() - 60_000, waits=False)
    publish(tmp_path, made)
    with page_of(tmp_path) as running:
        page = drawn(open_live(running))
        expect(page.locator("#history .row").first).to_contain_text("#60")
    expect(page.locator("#link")).to_contain_text("no connection")
    one_round_more(tmp_path, made)
    _, port = running.place
    with page_of(tmp_path, [f"serve.listen=127.0.0.1:{port}"]):
        expect(page.locator("#newest")).to_contain_text("Round 61 ")
        expect(page.locator("#history .row").first).to_contain_text("#61")
        expect(page.locator("#history .row").nth(1)).to_contain_text("#60")
        expect(page.locator("#link")).to_have_text("live")
        page.close()


def test_a_job_that_catches_up_is_no_alarm_and_one_that_stopped_is(
    tmp_path: Path, open_live: Open
) -> None:
    made = MadeUpCluster(now_ms() - 3_600_000, waits=False)
    publish(tmp_path, made)
    with page_of(tmp_path) as running:
        page = drawn(open_live(running))
        expect(page.locator("#badge")).to_contain_text("No newer round")
        one_round_more(tmp_path, made, waits=False)
        expect(page.locator("#newest")).to_contain_text("Round 61 ")
        expect(page.locator("#badge")).to_contain_text("Catching up")
        expect(page.locator("#verdict")).to_have_attribute("data-level", "open")
        page.reload()
        expect(page.locator("#badge")).to_contain_text("No newer round")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_nothing_is_wider_than_the_screen_and_text_is_readable(
    running: RunningPage, open_live: Open, device: dict[str, object], dark: bool
) -> None:
    page = drawn(open_live(running, device, color_scheme="dark" if dark else "light"))

    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    contrasts = page.evaluate(CONTRASTS)
    assert {where: round(ratio, 2) for where, ratio in contrasts.items() if ratio < 4.5} == {}


#: The contrast of the texts that carry the message, as WCAG computes it.
CONTRASTS = """(() => {
  const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (text) => {
    const [r, g, b] = parts(text).map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = {};
  for (const name of ["#badge", "#state", "#advice", "#newest", ".hint", "dt", ".process p", ".tag",
    ".row .right", ".chip", ".legend span", "footer", "summary", "th"]) {
    for (const one of document.querySelectorAll(name)) {
      if (!one.offsetParent) continue;
      const [a, b] = [light(getComputedStyle(one).color), light(behind(one))].sort((x, y) => y - x);
      found[name] = Math.min(found[name] || 99, (a + 0.05) / (b + 0.05));
    }
  }
  return found;
})()"""


def test_motion_stops_where_people_ask_for_that(running: RunningPage, open_live: Open) -> None:
    page = drawn(open_live(running, reduced_motion="reduce"))

    names = page.evaluate(
        "[...document.querySelectorAll('canvas')].map((one) => getComputedStyle(one).animationName)"
    )
    assert set(names) == {"none"}


def test_hostile_names_are_text_everywhere(tmp_path: Path, open_live: Open) -> None:
    made = MadeUpCluster(
        now_ms(),
        cluster=HOSTILE,
        rounds=20,
        broker="broker-{}" + HOSTILE.replace("/", "\u2215") + ":8080",
        bundle="ten/" + HOSTILE.replace("/", "\u2215") + "{}/0x{:08x}_0x{:08x}",
    )
    publish(tmp_path, made)
    (done,) = [one for one, _, _ in made.made() if one.round == made.rounds]
    hostile = replace(
        done,
        round=21,
        commands=(),
        stale={f"stale{HOSTILE}:1": HOSTILE},
        skips=(Skip("cluster", (), "even", HOSTILE),),
        state=RoundState("waiting", f"`{HOSTILE}`", f"Do `{HOSTILE}` or {HOSTILE}"),
    )
    add_round(tmp_path, hostile)
    with page_of(tmp_path) as running:
        page = drawn(open_live(running))
        expect(page.locator("#state")).to_contain_text(HOSTILE)
        page.focus("#heat canvas")
        page.keyboard.press("ArrowLeft")
        for name in ("usage", "moves"):
            page.locator(f"#{name}-table summary").click()
        for subject in (HOSTILE, "21", made.names()[0]):
            page.fill("#subject", subject)
            page.press("#subject", "Enter")
            page.wait_for_timeout(300)

        text = page.inner_text("body")
        assert HOSTILE in text
        assert page.locator("img, iframe, script:not([src])").count() == 0


def test_people_sign_in_and_only_operators_decide(tmp_path: Path, open_live: Open) -> None:
    publish(tmp_path, MadeUpCluster(now_ms()))
    (tmp_path / "key").write_text(secrets.token_hex(32))
    key = f"signing.approvals_key_file={tmp_path / 'key'}"
    words = ["executor.approval=required", key]
    with page_of(tmp_path, words, tokens=True) as running:
        page = open_live(running)
        page.locator("#login").wait_for()
        sign_in(page, "wrong-token-0123456789")
        expect(page.locator("#login-error")).to_have_text("No such token.")
        sign_in(page, VIEWER)
        drawn(page)
        expect(page.locator("#person")).to_contain_text("Ada (viewer)")
        expect(page.locator("[id^=approve-]")).to_be_disabled()
        expect(page.locator("#why-not")).to_have_text("This needs the role operator.")
        page.locator("#person button").click()
        page.locator("#login").wait_for()
        sign_in(page, OPERATOR)
        drawn(page)
        page.locator("[id^=approve-]").click()
        expect(page.locator("#plan-problem")).to_contain_text("Write a reason first")
        assert page.evaluate("document.activeElement.id").startswith("reason-")
        page.keyboard.type("looks right")
        page.locator("[id^=approve-]").click()
        expect(page.locator(".words")).to_contain_text("approved it")
        expect(page.locator(".words")).to_contain_text("The executor has not answered yet.")
        expect(page.locator("[id^=approve-]")).to_have_count(0)
        assert page.evaluate("document.cookie") == "", "the script cannot read the session"
    (record,), _ = FileTopicReader(tmp_path / "approvals").read()
    assert decode_approval(record.value).reason == "looks right"


def sign_in(page: Page, token: str) -> None:
    page.fill("#token", token)
    page.press("#token", "Enter")


def test_a_cluster_without_a_round_shows_health_and_the_next_step(
    tmp_path: Path, open_live: Open
) -> None:
    seconds = (now_ms() - T0) / 1_000
    missing = {"b:1": "broker-unavailable: timed out"}
    with FileTopicWriter(tmp_path / "telemetry") as topic:
        topic.append([load_report("a:1", seconds), sweep(seconds, "a:1", missing=missing)])
    with page_of(tmp_path) as running:
        page = open_live(running)
        told = "1 broker answered the newest pass; without an answer: b:1"
        expect(page.locator("#state")).to_contain_text("No round yet. The first collection pass")
        expect(page.locator(".process").first).to_contain_text(told)
        assert page.is_hidden("#plan")
        assert page.is_hidden("#heat")


def test_an_empty_page_says_what_is_missing_and_what_to_do(tmp_path: Path, open_live: Open) -> None:
    with page_of(tmp_path, clusters=0) as running:
        page = open_live(running)
        expect(page.locator("#empty h1")).to_have_text("No cluster yet")
        assert "Start rebalancer collect and then rebalancer run" in page.inner_text("#empty")


def test_a_lost_topic_is_named_while_the_rest_goes_on(tmp_path: Path, open_live: Open) -> None:
    publish(tmp_path, MadeUpCluster(now_ms()))
    with page_of(tmp_path) as running:
        page = drawn(open_live(running))
        (tmp_path / "outcomes").rename(tmp_path / "away")
        (tmp_path / "outcomes").write_text("no folder")
        expect(page.locator("#notices")).to_contain_text("No connection to topics.outcomes")
        (tmp_path / "outcomes").unlink()
        (tmp_path / "away").rename(tmp_path / "outcomes")
        expect(page.locator("#notices")).not_to_contain_text("topics.outcomes", timeout=60_000)
        assert page.locator("#brokers .row").count() == 8
