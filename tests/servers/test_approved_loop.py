"""The closed loop on a real cluster with plans that a person approves on the page, in a browser: a
plan is denied, the next ones are approved, and the programs are killed in the middle of one. The
metrics of all four programs are scraped, beside those of the brokers.

`pytest tests/servers/test_approved_loop.py -rP` prints the figures.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Response, TimeoutError, expect

from pulsar_rebalancer.decisions.plans import (
    Plan,
    approval_for,
    plan_named,
    plans_of,
    publish_approval,
    read_plans,
)
from pulsar_rebalancer.decisions.read_status import Pause, read_status
from pulsar_rebalancer.decisions.status_screen import as_document
from pulsar_rebalancer.settings.merge_sources import Settings, load
from sinks.wire.signing_keys import approvals_key
from strategies.cluster.model import Outcome
from strategies.executor.objections_to_approvals import ApprovalOutcome
from tests.chromium import DESKTOP
from tests.control_topic import now_ms
from tests.monitoring.boards import expressions
from tests.servers.test_closed_loop import nothing_was_lost, told
from tests.servers.verdicts import moves, verdicts
from tools.monitoring.server import Prometheus, prometheus
from tools.processes.loop import GOAL, PROGRAMS, Loop, closed_loop
from tools.servers.jvm import free_ports
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.skewed_users import skewed_users

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.browser]
TOKEN = "the token of ann, an operator"
KEY = "the key of the people who approve"
#: Of the traffic, by broker.
SHARES = (0.1, 0.2, 0.7)
LONG_MS = 300_000
#: A plan that expires leaves the page, and its buttons with it.
SOON_MS = 10_000
NO_PAUSE = Pause(Path("/x/pause"), False)


@dataclass(frozen=True)
class Ann:
    """An operator in front of the page, with the settings of her programs to look at the topics."""

    page: Page
    address: str
    loop: Loop
    settings: Settings

    def signs_in(self) -> None:
        self.loop.wait_until(self._page_answers, "the page answers")
        self.page.goto(self.address)
        self.page.locator("#token").fill(TOKEN)
        self.page.locator("#token").press("Enter")
        expect(self.page.locator("#page")).to_be_visible(timeout=LONG_MS)

    def _page_answers(self) -> bool:
        try:
            return httpx.get(self.address).is_success
        except httpx.TransportError:
            return False

    def decides(self, action: str, reason: str, at_least: int = 1) -> str:
        """Clicks on the button of a plan that waits and has this number of commands, until one is
        decided: it may expire before the click. Returns the plan's id.
        """
        while True:
            plan = f".plan:has(tbody tr:nth-child({at_least}))"
            button = self.page.locator(f"{plan} [id^={action}-]:enabled").first
            self.loop.wait_until(button.is_visible, f"the page has a plan to {action}")
            id_ = (button.get_attribute("id") or "").removeprefix(f"{action}-")
            try:
                self.page.locator(f"[id='reason-{id_}']").fill(reason, timeout=SOON_MS)
                with self.page.expect_response(_is_decision) as sent:
                    self.page.locator(f"[id='{action}-{id_}']").click(timeout=SOON_MS)
            except TimeoutError:
                print(f"plan {id_} left the page before it was decided")
                continue
            if sent.value.ok:
                expect(self.page.locator("#said")).to_contain_text(id_)
                return id_
            print("the page said:", self.page.locator("#plan-problem").inner_text())

    def plan(self, id_: str) -> Plan:
        return plan_named(self.plans(), id_)

    def plans(self) -> Sequence[Plan]:
        return plans_of(read_plans(self.settings.connections), now_ms())

    def waiting(self) -> list[Plan]:
        return [one for one in self.plans() if one.state == "waiting"]

    def waiting_plan(self) -> Plan:
        """The next one, as soon as it is complete."""
        found: list[Plan] = []

        def there() -> bool:
            found[:] = [one for one in self.waiting() if one.complete]
            return bool(found)

        self.loop.wait_until(there, "a plan waits")
        return found[0]

    def wait_for(self, id_: str, *states: str) -> Plan:
        """Until the plan has one of these states, and each of its commands an outcome."""

        def is_so() -> bool:
            plan = self.plan(id_)
            return plan.state in states and all(one.outcome for one in plan.commands)

        self.loop.wait_until(is_so, f"{id_} is one of {states}")
        return self.plan(id_)

    def reasons(self, plan: Plan) -> list[str]:
        return [(one.outcome and one.outcome.reason) or "" for one in plan.commands]


def _is_decision(answer: Response) -> bool:
    """The page also reads the plans, at the same address."""
    return "/plans?" in answer.url and answer.request.method == "POST"


@pytest.mark.parametrize("kind", ["pulsar", pytest.param("guarded_pulsar", marks=pytest.mark.slow)])
def test_plans_are_denied_approved_and_finished_after_all_programs_were_killed(
    cluster: PulsarCluster, browser: Browser, tmp_path: Path
) -> None:
    with (
        approving(cluster, browser, tmp_path) as ann,
        skewed_users(cluster, tmp_path, "t/approved", bundles=32, shares=SHARES) as users,
    ):
        owners, spread = users.owners(), users.spread()
        told("at the start", users)
        ann.loop.begin("collect", "execute", "serve")
        nobody_approves_in_time(ann)
        ann.signs_in()
        the_first_plan_is_denied(ann)
        assert users.owners() == owners

        killed = ann.decides("approve", "go ahead", at_least=2)
        kill_all_in_the_middle(ann, killed)
        before = ann.loop.count("rounds")
        ann.loop.start("execute", "run", "serve")
        ann.wait_for(killed, "done", "partly")
        told(f"after plan {killed}", users)
        assert users.spread() < spread

        # A job that starts has no plan, however long the machine takes for it.
        ann.loop.wait_until(lambda: ann.loop.count("rounds") > before, "the job goes on")
        ann.signs_in()
        while users.spread() > GOAL:
            ann.wait_for(ann.decides("approve", "and further"), "done", "partly", "refused")
            told("after the next plan", users)
        with watching(ann.loop, tmp_path / "metrics", cluster.brokers) as server:
            boards_have_series_of_real_brokers(server, ann.loop)
        shown = ann.page.content()
        ann.loop.stop("collect", "execute", "serve")
        traffic = users.end()
    assert nothing_was_lost(traffic)
    nothing_happened_twice(ann.loop)
    no_secret_is_outside_of_its_file(tmp_path, shown)


def nobody_approves_in_time(ann: Ann) -> None:
    """A person signs an approval that reaches the topic after the plan has expired."""
    plan = ann.waiting_plan()
    ann.loop.wait_until(lambda: an_undecided_plan_is_the_state(ann), "the plan is the state")
    late = approval_for(
        plan, "approve", by="bob", reason="looks good", now_ms=now_ms(), new_id="late"
    )
    reasons = ann.reasons(ann.wait_for(plan.id, "expired"))
    assert {reason.partition(":")[0] for reason in reasons} == {"not-approved"}
    key = approvals_key(ann.settings.connections.signing)
    assert key is not None
    publish_approval(ann.settings.connections, key, late)
    ann.loop.wait_until(lambda: "late" in answers(ann.loop), "the late approval has an answer")
    answer = answers(ann.loop)["late"]
    print("approved late:", answer.status, answer.reason)
    assert answer.status in ("refused", "expired")
    assert ann.plan(plan.id).state == "expired"


def an_undecided_plan_is_the_state(ann: Ann) -> bool:
    """`status` names it, and no round that counts its moves calls the cluster done."""
    rounds = map(json.loads, ann.loop.read("rounds"))
    codes = {one["state"]["code"] for one in rounds if one.get("counted")}
    assert not codes & {"balanced", "cannot-help"}
    waiting = [one.id for one in ann.waiting()]
    found = read_status(ann.settings.connections, now_ms(), approval_required=True)
    (shown,) = as_document(found, NO_PAUSE, now_ms(), ann.settings.engine.round)["clusters"]
    state = shown["state"]
    named = any(one in state["text"] for one in waiting)
    return bool(codes) and state["code"] == "waiting" and named


def the_first_plan_is_denied(ann: Ann) -> None:
    denied = ann.decides("deny", "not during the sale")
    reasons = ann.reasons(ann.wait_for(denied, "denied"))
    assert set(reasons) == {"denied: ann: not during the sale"}


def kill_all_in_the_middle(ann: Ann, plan: str) -> None:
    """When a part of the plan is done."""
    ann.loop.wait_until(lambda: bool(applied(ann, plan)), "its first move is done", 0.05)
    for program in ("execute", "run", "serve"):
        ann.loop.kill(program)
    done, total = len(applied(ann, plan)), len(ann.plan(plan).commands)
    print(f"killed after {done} of {total} moves")
    assert 0 < done < total


def applied(ann: Ann, plan: str) -> list[Outcome]:
    ids = {one.command.id for one in ann.plan(plan).commands}
    return [one for one in ann.loop.outcomes() if one.command_id in ids and one.status == "applied"]


def nothing_happened_twice(loop: Loop) -> None:
    """One outcome per command, one answer per approval."""
    print(Counter((one.status, (one.reason or "").partition(":")[0]) for one in loop.outcomes()))
    assert {len(values) for values in verdicts(loop).values()} == {1}
    assert max(moves(loop).values()) == 1  # within the cool-down


def boards_have_series_of_real_brokers(server: Prometheus, loop: Loop) -> None:
    """What brokers see is on the board that joins our series with those of Pulsar. Modular brokers
    publish no series of unloads and splits while their own shedder is off.
    """
    panels = {"Topics per broker", "CPU of brokers, as they report it", "Traffic of brokers"}
    shown = [one for one in expressions() if one.panel in panels]

    def all_have() -> bool:
        return {one.panel for one in shown if server.values(one.with_values("10s"))} == panels

    loop.wait_until(all_have, "the boards have series of real brokers")


@contextmanager
def watching(loop: Loop, folder: Path, brokers: Sequence[str]) -> Iterator[Prometheus]:
    """Prometheus on the addresses that the processes have logged last, and on the brokers."""
    folder.mkdir()
    logs = [loop.log(program).read_text("utf-8") for program in PROGRAMS]
    addresses = [re.findall(r"metrics: http://(\S+)/metrics", log)[-1] for log in logs]
    with prometheus(folder, {"pulsar-rebalancer": addresses, "pulsar": brokers}, "1s") as server:
        loop.wait_until(
            lambda: server.values("sum(up)") == [len(PROGRAMS) + len(brokers)], "all are scraped"
        )
        yield server


def no_secret_is_outside_of_its_file(folder: Path, shown: str) -> None:
    """Neither in logs, topics, state, scraped metrics nor on the page."""
    own = ("approvals-key", "tokens")
    files = [one for one in folder.rglob("*") if one.is_file() and one.name not in own]
    assert any(file.suffix == ".log" for file in files)
    for secret in (KEY, TOKEN):
        assert secret not in shown
        assert [file for file in files if secret.encode() in file.read_bytes()] == []


def answers(loop: Loop) -> dict[str, ApprovalOutcome]:
    """By the id of the approval."""
    return {one.approval_id: one for one in loop.answers() if isinstance(one, ApprovalOutcome)}


@contextmanager
def approving(cluster: PulsarCluster, browser: Browser, folder: Path) -> Iterator[Ann]:
    """A loop whose plans wait for 40 seconds, and whose executor takes one after the other."""
    for name, text in (("approvals-key", KEY), ("tokens", f"operator:ann:{TOKEN}\n")):
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o600)
    (port,) = free_ports(1)
    settings: dict[str, Any] = {
        "executor__approval": "required",
        "executor__max_concurrent": 1,
        "executor__max_per_minute": 20,
        "signing__approvals_key_file": folder / "approvals-key",
        "metrics__listen": "127.0.0.1:0",
        "serve__listen": f"127.0.0.1:{port}",
        "serve__token_file": folder / "tokens",
        "round__interval_ms": 8_000,
        "round__command_ttl_ms": 40_000,
        "round__cool_down_ms": 1_200_000,
        # The rule is the modular one's; the brokers may not be.
        "filters__load_manager": "extensible" if cluster.guarded else "modular",
    }
    context = browser.new_context(**DESKTOP)  # type: ignore[arg-type]
    context.set_default_timeout(LONG_MS)
    with closed_loop(folder / "loop", cluster.settings(folder), None, **settings) as loop:
        flags = [word for word in loop.words if word != "--set"]
        yield Ann(context.new_page(), f"http://127.0.0.1:{port}/", loop, load(flags=flags))
    context.close()
