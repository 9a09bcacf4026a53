"""A person decides on plans in the browser, and an executor carries out exactly those."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sinks.executor.settings import ExecutorConfig
from sinks.secret_file import read_secret
from sinks.wire.record_encoding import encode_round
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command, Round
from tests.browser.conftest import Open
from tests.control_topic import Control, command, now_ms
from tests.live_server import OPERATOR, page_of
from tests.live_topics import MadeUpCluster
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import BUNDLES, FOUR, ONE, THREE, TWO, Life, run

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Scene:
    """Topics and a key in a folder, and a cluster whose first broker owns all bundles."""

    control: Control
    pulsar: FakePulsar
    key: Path
    brokers: Sequence[str]

    def run(self, life: Life = Life(), *, required: bool = True) -> list[tuple[str, str]]:
        """One life of an executor that applies, with the key: all outcomes so far."""
        signs = SigningKey(read_secret(str(self.key), "signing.approvals_key_file"))
        config = ExecutorConfig("c", apply=True, approvals_key=signs, approval_required=required)
        return run(self.pulsar, self.control, config, life)

    @contextmanager
    def opened(self, open_live: Open, *words: str) -> Iterator[Page]:
        """The page, where an operator has signed in."""
        given = [*words, f"signing.approvals_key_file={self.key}"]
        with page_of(self.key.parent, given, tokens=True) as running:
            page = open_live(running)
            page.fill("#token", OPERATOR)
            page.press("#token", "Enter")
            yield page


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "key").write_text("k" * 32)
    with FakePulsar(Cluster()) as pulsar:
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, pulsar.cluster.brokers[0]))
        yield Scene(Control(tmp_path), pulsar, tmp_path / "key", pulsar.cluster.brokers)


def decided(control: Control, number: int, *commands: Command) -> None:
    """A round decides on these commands."""
    (done, _, _) = next(MadeUpCluster(now_ms(), cluster="c", rounds=1).made())
    given = [replace(one, round=number) for one in commands]
    ids = tuple(one.id for one in given)
    one: Round = replace(done, round=number, ts=now_ms() + number, commands=ids, skips=())
    control.send(*given)
    control.write("rounds", [encode_round(one)])


def decide(page: Page, action: str, reason: str) -> None:
    page.fill(".plan input", reason)
    page.click(f"[id^={action}-]")
    expect(page.locator(".words").first).to_contain_text("The executor has not answered yet.")


def test_one_plan_is_denied_the_next_one_approved_and_done_and_nothing_else(
    scene: Scene, open_live: Open
) -> None:
    control, (one, two, _) = scene.control, scene.brokers
    decided(control, 1, command(ONE, one, two), command(TWO, one, two))
    assert scene.run() == []

    with scene.opened(open_live, "executor.approval=required") as page:
        expect(page.locator(".words")).to_contain_text("Round 1 wants 2 commands")
        expect(page.locator("#advice")).to_contain_text("waits for a person: approve or deny it")
        decide(page, "deny", "not during the sale")
        assert scene.run() == [("refused", "denied")] * 2
        expect(page.locator("#plan details")).to_contain_text("Grace denied it")

        decided(control, 2, command(THREE, one, two), command(FOUR, one, two))
        scene.run()
        expect(page.locator(".words")).to_contain_text("Round 2 wants 2 commands")
        decide(page, "approve", "evens the load")
        assert scene.run()[2:] == [("applied", "")] * 2
        expect(page.locator("#plan > .hint")).to_contain_text("No plan waits")
        expect(page.locator(".process").nth(2)).to_contain_text("2 applied")
        expect(page.locator("#history .row").first).to_contain_text("2 applied")

    owners = scene.pulsar.cluster.owners
    assert [owners[bundle] for bundle in BUNDLES] == [one, one, two, two]
    assert [(one.status, one.by) for one in control.answers()] == [("accepted", "Grace")] * 2


def test_a_plan_that_is_approved_too_late_shows_the_executors_reason(
    scene: Scene, open_live: Open
) -> None:
    one, two, _ = scene.brokers
    decided(scene.control, 1, command(ONE, one, two))
    scene.run()

    with scene.opened(open_live, "executor.approval=required") as page:
        expect(page.locator(".words")).to_contain_text("Round 1 wants 1 command")
        decide(page, "approve", "fits")
        # The executor was stopped for ten minutes.
        assert scene.run(Life(later_ms=600_000)) == [("expired", "not-approved")]
        expect(page.locator("#plan > .hint")).to_contain_text("No plan waits")
        page.locator("#plan details summary").click()
        expect(page.locator("#plan details")).to_contain_text("Grace approved it")
        expect(page.locator("#plan details")).to_contain_text("expired")

    assert scene.pulsar.asked("PUT") == []


def test_the_executor_is_paused_and_resumed(scene: Scene, open_live: Open) -> None:
    control, (one, two, _) = scene.control, scene.brokers
    decided(control, 1)

    with scene.opened(open_live) as page:
        page.fill("#reason-executor", "upgrade of the brokers")
        page.click("#pause-executor")
        expect(page.locator("#plan")).to_contain_text("Grace asked the executor to pause")
        scene.run(required=False)
        expect(page.locator("#badge")).to_contain_text("Paused")
        expect(page.locator("#advice")).to_contain_text("Grace paused the executor: upgrade of")
        decided(control, 2, command(ONE, one, two))
        assert scene.run(required=False) == [("refused", "paused")]
        expect(page.locator("#resume-executor")).to_have_text("Resume the executor")
        page.fill("#reason-executor", "upgrade done")
        page.click("#resume-executor")
        expect(page.locator("#plan")).to_contain_text("Grace asked the executor to resume")
        scene.run(required=False)
        expect(page.locator("#pause-executor")).to_have_text("Pause the executor")
        expect(page.locator("#badge")).not_to_contain_text("Paused")
