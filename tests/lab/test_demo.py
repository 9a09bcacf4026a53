"""The demo without Spark: it balances, says so in words and in JSON, and treats folders with
care.
"""

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from rich.ansi import AnsiDecoder
from rich.console import Console

from pulsar_rebalancer.cli.child_process import ChildProcess
from pulsar_rebalancer.lab.demo.plan import (
    SETTINGS_NAME,
    DemoPlan,
    file_text,
    prepare_folder,
    write_settings,
)
from pulsar_rebalancer.lab.demo.run import DemoTopics, JobDecider, run_demo, stoppable
from pulsar_rebalancer.lab.demo.screen import Screen
from pulsar_rebalancer.lab.simulation.clusters import skewed_cluster
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    EngineDecider,
    RoundAnswer,
    closed_loop,
)
from pulsar_rebalancer.lab.strategy_goal import Goal, goal_of
from pulsar_rebalancer.settings.merge_sources import load
from sinks.topics.files.topic import FileTopicReader
from sinks.wire.record_decoding import decode_outcome, decode_round
from strategies.cluster.model import Sweep, TelemetryRecord
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from strategies.shedding.registry import DEFAULT, SHEDDERS
from streaming.start_lines import StartLines, StartNews
from tests.live_topics import MadeUpCluster
from tests.unit.command_line import Answer, rebalancer

AVG = ("--strategy", "avg")


def demo(folder: Path, *words: object) -> Answer:
    return rebalancer("demo", "--engine", "plain", "--out", folder / "demo", *words)


def plan_in(folder: Path, strategy: str = "avg", rounds: int = 20) -> DemoPlan:
    plan = DemoPlan(strategy, "fixed", rounds, 1, "plain", prepare_folder(folder, keep=False))
    write_settings(plan)
    return plan


def silent(goal: Goal) -> Screen:
    return Screen(Console(file=StringIO()), goal)


@pytest.mark.heavy
def test_it_ends_with_one_sentence_and_where_to_go_from_here(tmp_path: Path) -> None:
    result = demo(tmp_path)
    assert result.code == 0, result.words
    for told in (
        "strategy  SteadyShedder, fixed mode: ",
        "demo.toml, all at their defaults\n",
        "Balanced: the spread (max − min of the brokers' usage) went from 80.7 to ",
        "\nProven: round 2 moved ",  # the certificate of the round with moves
        f"Files are in {tmp_path / 'demo'}",
        " explain ",
        " replay ",
    ):
        assert told in result.out


def test_the_help_names_the_default_strategy() -> None:
    assert f"default {DEFAULT}." in rebalancer("demo", "--help").words


@pytest.mark.heavy
def test_the_proof_says_what_the_certificates_of_the_rounds_say(tmp_path: Path) -> None:
    plan = plan_in(tmp_path / "demo", "steady")
    settings = load(plan.settings_file).engine
    goal = goal_of(settings)
    result = run_demo(plan, settings, goal, silent(goal))
    (moving,) = (step.round for step in result.steps if step.commands)
    last, plan_of = result.steps[-1].round.certificate, moving.certificate
    assert last is not None
    assert plan_of is not None
    assert plan_of.least_to_move is not None
    effort = (
        f"round {moving.round} moved {plan_of.moved / 1e6:.1f} MB/s, and no plan reaches its "
        f"spread with less than {plan_of.least_to_move / 1e6:.1f} MB/s."
    )

    assert last.best_spread == pytest.approx(0, abs=0.0005)
    assert result.proof() == f"Proven: {effort}", "that no spread is below 0 is no proof"
    assert result.as_json()["proof"] == result.proof()

    *before, end = result.steps
    bounded = replace(last, best_spread=last.spread - 0.012)
    steps = (*before, replace(end, round=replace(end.round, certificate=bounded)))
    assert replace(result, steps=steps).proof() == (
        f"Proven: the spread of recent samples is {100 * last.spread:.1f} points, and no "
        f"assignment of whole bundles has one more than 1.2 points smaller; {effort}"
    )


@pytest.mark.heavy
def test_strategies_without_a_certificate_prove_nothing(tmp_path: Path) -> None:
    assert demo(tmp_path, *AVG, "--json").json["proof"] is None


@pytest.mark.lab
@pytest.mark.parametrize("strategy", list(SHEDDERS))
@pytest.mark.parametrize("mode", ["fixed", "parity"])
def test_every_strategy_gets_there(tmp_path: Path, strategy: str, mode: str) -> None:
    """As in Pulsar, all that ThresholdShedder sheds in a round goes to one broker (parity mode),
    and so it takes longer.
    """
    result = demo(tmp_path, "--strategy", strategy, "--mode", mode, "--rounds", 40, "--json")
    assert result.code == 0, result.words
    told = result.json
    assert told["balanced"]
    assert told["spread_last_points"] < told["spread_first_points"]
    assert (
        told["threshold_points"] is None
        or told["spread_last_points"] <= told["threshold_points"] < told["spread_first_points"]
    )
    assert 0 < told["moved"] < told["bundles"] == 256


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", list(SHEDDERS))
def test_settings_are_set_as_for_every_command(tmp_path: Path, strategy: str) -> None:
    named = (f"shedding.strategy={strategy}", "shedding.mode=parity", "round.interval_ms=50000")
    words = [word for setting in named for word in ("--set", setting)]
    result = demo(tmp_path, "--json", *words, "--rounds", 40)
    assert result.code == 0, result.words
    told = result.json
    assert (told["balanced"], told["strategy"], told["mode"]) == (True, strategy, "parity")
    assert load(tmp_path / "demo" / SETTINGS_NAME).value("round.interval_ms") == 50_000


def test_what_is_set_counts_more_than_the_demos_own_choice(tmp_path: Path) -> None:
    demo(tmp_path, "--rounds", 2, *AVG, "--set", "shedding.avg.max_unload=0.3")
    assert load(tmp_path / "demo" / SETTINGS_NAME).value("shedding.avg.max_unload") == 0.3


@pytest.mark.heavy
def test_too_few_rounds_are_said_to_be_too_few(tmp_path: Path) -> None:
    result = demo(tmp_path, "--rounds", 2)
    assert result.code == 3
    assert "Not balanced yet" in result.out
    assert "--rounds 4" in result.out


@pytest.mark.heavy
def test_before_samples_are_judged_the_demo_says_that_it_waits_for_them(tmp_path: Path) -> None:
    """Of three rounds the second moves bundles, so that no samples show their effect yet."""
    page = tmp_path / "report.html"
    result = demo(tmp_path, "--rounds", 3, "--html", page)

    assert result.code == 3
    (end,) = (one for one in result.out.splitlines() if " bundles were moved in 3 rounds" in one)
    assert end.startswith("Waits for samples: ")
    assert "[waiting-for-samples]" in end
    assert "--rounds 6" in end
    said = result.out.partition("\nround  spread ")[2]
    assert said
    assert not re.search(r"(?i)balanced|consider|\beven\b", said)
    report = page.read_text("utf-8")
    assert "Not judged at the end: " in report
    assert "Not balanced" not in report


@pytest.mark.heavy
def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    def files_of(name: str, seed: str) -> dict[str, bytes]:
        demo(tmp_path / name, "--seed", seed)
        files = (tmp_path / name).glob("demo/*/*.jsonl")
        return {path.parent.name: path.read_bytes() for path in files}

    first = files_of("first", "7")
    assert files_of("second", "7") == first
    assert files_of("third", "8")["telemetry"] != first["telemetry"]


@pytest.mark.heavy
def test_topics_hold_what_was_shown(tmp_path: Path) -> None:
    plan = plan_in(tmp_path / "demo")
    settings = load(plan.settings_file).engine
    goal = goal_of(settings)
    result = run_demo(plan, settings, goal, silent(goal))
    rounds, outcomes, rejected = (
        [one.value for one in FileTopicReader(plan.topic(topic)).read()[0]]
        for topic in ("rounds", "outcomes", "rejected")
    )
    assert [decode_round(one) for one in rounds] == [step.round for step in result.steps]
    assert [decode_outcome(one) for one in outcomes] == [
        outcome for step in result.steps for outcome in step.outcomes
    ]
    assert rejected == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_way_to_be_stopped_is_the_same(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), stoppable():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_the_settings_file_holds_what_it_says(tmp_path: Path) -> None:
    plan = plan_in(tmp_path / 'a folder # with "quotes"')
    settings = load(plan.settings_file)
    assert settings.engine.strategy == "avg"
    assert settings.value("shedding.avg.max_unload") == 0.5
    assert settings.value("job.checkpoint") == str(plan.checkpoint)
    assert settings.value("topics.rounds") == str(plan.topic_uri("rounds"))
    assert "default 0.2" in file_text(plan)


def test_a_strategy_without_overrides_has_none_in_its_file(tmp_path: Path) -> None:
    assert "[shedding.threshold]" not in file_text(plan_in(tmp_path / "demo", "threshold"))


def test_an_earlier_demo_makes_room_and_nothing_else_does(tmp_path: Path) -> None:
    plan_in(tmp_path / "demo").topic("rounds").joinpath("old").touch()
    assert not list(plan_in(tmp_path / "demo").topic("rounds").iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(SettingsError, match="has files that no demo has written"):
        prepare_folder(tmp_path / "mine", keep=False)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_keep_writes_beside_an_earlier_demo(tmp_path: Path) -> None:
    first = plan_in(tmp_path / "demo")
    second = prepare_folder(tmp_path / "demo", keep=True)
    assert second == tmp_path / "demo-2"
    assert first.settings_file.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "demo").touch()
    assert demo(tmp_path).code == 2


def test_an_unknown_strategy_is_named_before_anything_is_written(tmp_path: Path) -> None:
    result = demo(tmp_path, "--strategy", "best")
    assert result.code == 2
    assert 'got "best"' in result.err
    assert not (tmp_path / "demo" / SETTINGS_NAME).exists()


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    printed = StringIO()
    console = Console(
        file=printed, width=width, force_terminal=True, no_color=True, highlight=False
    )
    screen = Screen(console, goal_of(EngineSettings()))
    with screen.live():
        screen.say(["a word " * 40])
        screen.step(one_step())
    assert max(len(line.plain) for line in AnsiDecoder().decode(printed.getvalue())) <= width


def one_step() -> RoundAnswer:
    return list(islice(closed_loop(skewed_cluster(), EngineDecider(EngineSettings())), 2))[-1]


class Late:
    """Topics on which the answer is there at the third look."""

    def __init__(self, answer: RoundAnswer) -> None:
        self._answers: list[RoundAnswer | None] = [None, None, answer]

    def publish(self, _: Sequence[TelemetryRecord]) -> None: ...

    def answer(self, _: int) -> RoundAnswer | None:
        return self._answers.pop(0)


def test_the_demo_says_each_attempt_of_its_job(tmp_path: Path) -> None:
    done, _, _ = next(MadeUpCluster(1_800_000_000_000).made())
    answer, said = RoundAnswer(done, ()), list[str]()
    for text in ("Spark starts", "attempt 1"):
        StartLines(tmp_path, lambda _: None).say(text)
    job = ChildProcess("the Spark job", (), tmp_path / "job.log")
    decider = JobDecider(cast(DemoTopics, Late(answer)), job, StartNews(tmp_path).look, said.append)
    assert decider.decide([Sweep("c", 1, 1, (), {})]) == answer
    assert said == ["Spark starts", "attempt 1"]
