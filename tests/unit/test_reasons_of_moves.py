"""The reason of a move names only its brokers, and all texts of a round predict one spread."""

import re
from collections.abc import Iterable
from functools import cache
from io import StringIO
from itertools import islice
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.commands.plans import plan_lines
from pulsar_rebalancer.decisions.explain.explanation_lines import round_lines
from pulsar_rebalancer.decisions.live.page_views import ViewSettings, history, overview
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveFold
from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.notices.notice_rules import picture_of
from pulsar_rebalancer.decisions.plans import plans_of
from pulsar_rebalancer.decisions.read_status import ClusterStatus, Pause, Status
from pulsar_rebalancer.decisions.status_screen import status_lines
from pulsar_rebalancer.lab.replay.decisions import describe_round
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import EngineDecider, RoundAnswer, closed_loop
from pulsar_rebalancer.watch.watch_loop import WatchScreen
from sinks.wire.operator_records import command_digest
from sinks.wire.record_encoding import encode_command
from strategies.cluster.model import Command, Round
from strategies.fold.engine import EngineSettings
from strategies.settings import LimitSettings, Mode, RoundSettings
from strategies.shedding.registry import SHEDDERS

pytestmark = pytest.mark.heavy
#: What texts expect the spread to be, in points: after the commands of a round, and by its plan,
#: some moves of which may have to stay.
OF_THE_ROUND = (
    r"([\d.]+) expected after",
    r"spread [\d.]+ → ([\d.]+) points",
    r"([\d.]+) after its moves",
    r"Estimated spread ([\d.]+) points",
)
OF_THE_PLAN = (
    r"estimated spread from [\d.]+ to ([\d.]+)",
    r"reaches a spread of ([\d.]+) points",
    r"([\d.]+) points between the brokers remain",
)


@cache
def demo(
    strategy: str, mode: Mode = "fixed", moves_per_round: int | None = None
) -> list[RoundAnswer]:
    """The first rounds of the demo's cluster, whose brokers have eight different usages."""
    limits = LimitSettings(moves_per_round=moves_per_round or LimitSettings().moves_per_round)
    decider = EngineDecider(EngineSettings(strategy, mode, limits=limits))
    return [*islice(closed_loop(skewed_cluster(), decider), 15)]


def moving(strategy: str, mode: Mode = "fixed", moves_per_round: int | None = None) -> RoundAnswer:
    return next(step for step in demo(strategy, mode, moves_per_round) if step.commands)


def named(command: Command) -> set[str]:
    """The brokers in a reason, without one that it says was refused for the destination."""
    refused = re.findall(r"; (\S+) [^;]+, but \S+", command.text)
    return {*re.findall(r"broker-\d+:\d+", command.text)} - {*refused}


@pytest.mark.parametrize("mode", ["fixed", "parity"])
@pytest.mark.parametrize("strategy", list(SHEDDERS))
def test_the_reason_of_a_move_names_only_brokers_of_the_move(strategy: str, mode: Mode) -> None:
    moves = [
        (named(command), {command.source, command.destination, outcome.owner_after})
        for step in demo(strategy, mode)
        for command, outcome in zip(step.commands, step.outcomes, strict=True)
    ]

    assert moves
    assert [(names, ends) for names, ends in moves if not names <= ends] == []


def test_a_move_between_the_brokers_of_the_gap_names_it_and_others_speak_of_the_cluster() -> None:
    commands = moving("steady").commands
    gaps = {
        (one.source, one.destination): " points above " in one.text.partition(": moving ")[0]
        for one in commands
    }

    assert [ends for ends, names_gap in gaps.items() if names_gap] == [
        ("broker-1:8080", "broker-3:8080")
    ]
    assert len(gaps) > 1
    gap = f"at least {commands[0].evidence['gap_points']:.1f} points "
    assert [one.text for one in commands if gap not in one.text] == []


def texts(done: Round, commands: tuple[Command, ...]) -> Iterable[str]:
    """All that is said of a round: by explain, plans, status, watch, replay and notices."""
    digests = {one.id: command_digest(encode_command(one)) for one in commands}
    known = DecisionLog((done,), commands, digests=digests)
    yield from round_lines(done, known)
    yield from (line for plan in plans_of(known, done.ts) for line in plan_lines(plan, done.ts))
    status = Status((ClusterStatus("demo", newest=done),), {}, ())
    yield from status_lines(status, Pause(Path("/x/pause"), False), done.ts, RoundSettings())
    screen = StringIO()
    WatchScreen(screen).rounds([done], {one.id: one for one in commands})
    yield from screen.getvalue().splitlines()
    yield describe_round(done)
    yield picture_of(done)


def expected(lines: Iterable[str], forms: Iterable[str]) -> list[str]:
    """The spreads that these texts expect; whole points as the tenths that round to them."""
    said = "\n".join(lines)
    found = [one for form in forms for one in re.findall(form, said)]
    tenths = {f"{float(one):.0f}": one for one in found if "." in one}
    return [tenths.get(one, one) for one in found]


@pytest.mark.parametrize(("strategy", "count"), [("steady", 20), ("avg", 6)])
def test_all_texts_of_a_round_expect_the_same_spread(strategy: str, count: int) -> None:
    step = moving(strategy)

    found = expected(texts(step.round, step.commands), OF_THE_ROUND + OF_THE_PLAN)

    assert len({*found}) == 1, found
    assert len(found) >= count


def test_the_page_expects_the_same_spread() -> None:
    step, fold = moving("steady"), LiveFold()
    fold.add_round(step.round)
    (one,) = fold.clusters(step.round.ts).values()
    assert step.round.certificate is not None

    newest = overview(one, ViewSettings(), None)["newest"]

    assert newest["spread_after"] == step.round.certificate.spread
    assert newest["best_spread"] is None, "no spread is below 0, which is no bound"
    assert history(one)["rounds"][0]["spread_after"] == step.round.certificate.spread


def test_what_a_limited_round_expects_is_not_what_its_plan_would_bring() -> None:
    """Of the 18 moves of the plan, the limit allows three."""
    step = moving("steady", moves_per_round=3)
    assert step.round.certificate is not None

    said = [*texts(step.round, step.commands)]
    of_the_round, of_the_plan = ({*expected(said, one)} for one in (OF_THE_ROUND, OF_THE_PLAN))

    assert of_the_round == {f"{100 * step.round.certificate.spread:.1f}"}
    assert of_the_plan == {f"{step.commands[0].evidence['planned_spread_points']:.1f}"}
    assert not of_the_round & of_the_plan
    assert all("the 18 moves of the plan bring" in one.text for one in step.commands)
    assert len(step.commands) == 3
