"""Texts about a cluster whose plan nobody approves, in undecided_plans.txt: what is measured and
what is planned are two things in every text, and the plan is the state until somebody decides.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from pulsar_rebalancer.cli.commands.plans import plan_lines
from pulsar_rebalancer.decisions.explain.explanation_lines import (
    broker_lines,
    command_lines,
    round_lines,
)
from pulsar_rebalancer.decisions.live import page_views
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveFold
from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.notices.notice_rules import picture_of
from pulsar_rebalancer.decisions.plans import approval_for, plans_of
from pulsar_rebalancer.decisions.read_status import ClusterStatus, Pause, Status, read_status
from pulsar_rebalancer.decisions.status_screen import as_document, status_lines
from sinks.topics.topic_settings import Connections
from sinks.wire.operator_records import command_digest
from sinks.wire.record_encoding import encode_command, encode_round
from strategies.settings import RoundSettings
from tests.control_topic import Control
from tests.golden.printed import compare, steady, titled
from tests.unit.test_waiting_plans import ALL_STRATEGIES, Told, nobody_approves

NO_PAUSE = Pause(Path("/x/pause"), False)


def history(told: Told) -> DecisionLog:
    rounds, commands = told
    digests = {one.id: command_digest(encode_command(one)) for one in commands}
    return DecisionLog(rounds=rounds, commands=commands, has_outcomes=True, digests=digests)


def explained(_: Path) -> Iterator[str]:
    told = nobody_approves("avg", 8)
    newest = told[0][-1]
    yield from round_lines(newest, history(told))
    yield from broker_lines("hot:1", newest, history(told))
    yield picture_of(newest)


def plans_with_and_without_earlier_moves(_: Path) -> Iterator[str]:
    told = nobody_approves("avg", 8, "limits.moves_per_round=1")
    now_ms = told[0][-1].ts
    listed = plans_of(history(told), now_ms)
    newest, first = listed[0], listed[-1]
    yield from (*plan_lines(first, now_ms), *plan_lines(newest, now_ms))
    yield from command_lines(newest.commands[0].command, history(told))


def the_live_page(_: Path) -> Iterator[str]:
    """Bars of what reports show; what a round proves follows what it counts."""
    for strategy, bundles in (("avg", 8), ("steady", 3)):
        rounds, commands = nobody_approves(strategy, bundles)
        fold = LiveFold()
        for one in rounds:
            fold.add_round(one)
        for given in commands:
            fold.add_command(given, command_digest(encode_command(given)))
        (found,) = fold.clusters(rounds[-1].ts).values()
        yield orjson.dumps(page_views.brokers(found)).decode()
        newest = page_views.overview(found, page_views.ViewSettings(), False)["newest"]
        yield from (f"{key}: {value}" for key, value in newest.items() if key != "version")


def a_plan_that_a_person_has_decided(_: Path) -> Iterator[str]:
    told = nobody_approves("avg", 3)
    (plan,) = plans_of(history(told), told[0][-1].ts)
    at_ms = plan.ts + 1_000
    given = approval_for(plan, "approve", by="anna", reason="fits", now_ms=at_ms, new_id="1")
    (decided,) = plans_of(replace(history(told), approvals=(given,)), told[0][-1].ts)
    assert (plan.decision, decided.decision is None) == (None, False)
    one = ClusterStatus("c", told[0][-1], plans=(decided,))
    yield from status_lines(Status((one,), {}, ()), NO_PAUSE, plan.ts + 2_000, RoundSettings())


def the_state_of_a_cluster(folder: Path) -> Iterator[str]:
    told = {strategy: nobody_approves(strategy, 3) for strategy in ALL_STRATEGIES}
    for strategy, one in told.items():
        yield from (strategy, *screen(folder / strategy, one))
    yield from ("no approval required", *screen(folder / "free", told["steady"], required=False))


def screen(folder: Path, told: Told, *, required: bool = True) -> Iterator[str]:
    """The lines of the screen after each of the last rounds, and the state of its JSON document."""
    rounds, commands = told
    control = Control(folder)
    control.write("commands", [encode_command(one) for one in commands[:1]])
    for one in rounds[-2:]:
        control.write("rounds", [encode_round(one)])
        found = read_status(Connections(topics=control.topics), one.ts, approval_required=required)
        yield from status_lines(found, NO_PAUSE, one.ts, RoundSettings())
        (document,) = as_document(found, NO_PAUSE, one.ts, RoundSettings())["clusters"]
        yield f"{document['state']}"


STORIES: tuple[Callable[[Path], Iterator[str]], ...] = (
    explained, plans_with_and_without_earlier_moves, the_live_page,
    a_plan_that_a_person_has_decided, the_state_of_a_cluster,
)  # fmt: skip


@pytest.mark.heavy
def test_texts_about_undecided_plans_are_those_of_the_file(tmp_path: Path, rewrite: bool) -> None:
    parts: list[str] = []
    for story in STORIES:
        parts.append(titled(story))
        parts += [*(steady(f"{line}\n", tmp_path) for line in story(tmp_path)), "\n"]
    compare(Path(__file__).with_name("undecided_plans.txt"), parts, rewrite)
