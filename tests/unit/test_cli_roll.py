"""The command line of rolls, on brokers whose admin API is fake and rounds that are real."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from strategies.cluster.intent_records_and_states import IntentStatus
from tests.architecture.command_line import ROOT
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.folding_job import FoldingJob, Person
from tools.processes.set_words import set_words
from tools.waiting import eventually

pytestmark = pytest.mark.heavy

#: Turns of the job during which a broker that restarts is gone.
GONE = 4


class RestartingFleet:
    """Brokers that restart when their name is written into a file, as a restart command does."""

    def __init__(self, pulsar: FakePulsar, job: FoldingJob, file: Path) -> None:
        self.pulsar, self.job, self.file = pulsar, job, file
        self.names = tuple(pulsar.cluster.brokers)
        self.leader = self.names[0]
        pulsar.cluster.started_s = dict.fromkeys(self.names, 1_000.0)
        self.command = f'echo "$1" >> {file}; test "$1" = "$REBALANCER_BROKER"'
        self.done: list[str] = []
        self.most_gone = 0
        self._back_in: dict[str, int] = {}
        self.come_back = True
        job.on_turn = self._turn

    def _turn(self) -> None:
        wanted = self.file.read_text().split() if self.file.exists() else []
        for broker in wanted[len(self.done) :]:
            self.done.append(broker)
            self._back_in[broker] = GONE
            self._set(broker, runs=False)
        for broker in list(self._back_in):
            self._back_in[broker] -= self.come_back
            if self._back_in[broker] == 0:
                del self._back_in[broker]
                self._set(broker, runs=True)

    def _set(self, broker: str, *, runs: bool) -> None:
        self.job.brokers[broker] = runs
        if runs:
            self.pulsar.cluster.brokers.append(broker)
            self.pulsar.cluster.started_s[broker] = self.job.now_ms / 1000
        else:
            self.pulsar.cluster.brokers.remove(broker)
        self.most_gone = max(self.most_gone, len(self._back_in))


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with FakePulsar(Cluster(), 3) as fake:
        yield fake


@pytest.fixture
def fleet(control: Control, pulsar: FakePulsar, tmp_path: Path) -> Iterator[RestartingFleet]:
    job = FoldingJob(control, pulsar.cluster.brokers)
    pulsar.cluster.owners = job.owners  # type: ignore[assignment]
    made = RestartingFleet(pulsar, job, tmp_path / "restarts")
    with job.running():
        yield made


def words(fleet: RestartingFleet, *more: object) -> list[object]:
    places = {
        "pulsar.admin_urls": fleet.pulsar.admin_urls,
        "executor.state": fleet.file.parent / "state",
    }
    return ["roll", *more, "--no-even", *set_words(places)]


def the_roll(fleet: RestartingFleet) -> IntentStatus:
    return next(one for one in fleet.job.rounds()[-1].intents if one.action == "roll")


def test_a_roll_over_all_brokers(person: Person, fleet: RestartingFleet) -> None:
    answer = person.types(
        *words(fleet, "--reason", "4.2.5", "--by", "anna", "--restart-command", fleet.command)
    )
    assert answer.code == 0, answer.words
    assert answer.out.startswith("the roll is done: ")
    assert len(fleet.done) == 3
    assert fleet.done == [*sorted({*fleet.names} - {fleet.leader}), fleet.leader]
    assert fleet.most_gone == 1
    said = [line.partition("Z ")[2] for line in answer.err.splitlines()]
    for broker in fleet.done:
        steps = [said.index(f"{one} {broker}") for one in ("drains", "runs the restart of")]
        steps.append(said.index(f"{broker} has gone and come back"))
        assert steps == sorted(steps)
    assert the_roll(fleet).state == "done"
    assert {one.by for one in person.written()} == {"anna"}
    again = person.types(*words(fleet, "--resume"))
    assert (again.code, again.out) == (0, answer.out), "there is nothing left to do"


def test_the_process_dies_at_the_restart_and_nobody_is_restarted_twice(
    person: Person, fleet: RestartingFleet
) -> None:
    """The first process is killed by the very command that restarts the first broker."""
    killed = f'echo "$1" >> {fleet.file}; kill -9 $PPID'
    command = [*words(fleet, "--reason", "x", "--restart-command", killed), *person.settings()]
    process = subprocess.run(
        [sys.executable, "-m", "pulsar_rebalancer", *map(str, command)],
        check=False, capture_output=True, timeout=120, cwd=ROOT, text=True,
    )  # fmt: skip
    assert process.returncode == -9, process.stderr
    eventually(lambda: bool(fleet.done), 30)
    assert the_roll(fleet).phases[fleet.done[0]] == "restarting"
    assert "restarting" in person.types("intents").out

    answer = person.types(*words(fleet, "--resume", "--restart-command", fleet.command))

    assert answer.code == 0, answer.words
    assert sorted(fleet.done) == sorted(fleet.names)
    assert len({*fleet.done}) == 3


def test_a_broker_that_stays_away_halts_the_roll_which_goes_on_later(
    person: Person, fleet: RestartingFleet
) -> None:
    fleet.come_back = False
    command = ("--restart-command", fleet.command)
    answer = person.types(*words(fleet, "--reason", "x", *command, "--restart-timeout", "3"))
    (first,) = fleet.done
    assert answer.code == 1
    last = answer.err.splitlines()[-1]
    assert last.startswith(f"halted: {first} did not come back within 3 s. Look at its log and")
    assert last.endswith(f"`rebalancer roll --resume --restart-again {first}`.")
    eventually(lambda: the_roll(fleet).state == "halted", 30)
    shown = person.types("intents").out
    assert "halted: " in shown
    assert "rebalancer roll --resume" in shown

    fleet.come_back = True
    again = person.types(*words(fleet, "--resume", *command, "--json"))
    assert (again.code, again.json["state"]) == (0, "done"), again.words
    assert len(fleet.done) == 3


def test_a_command_that_fails_halts_the_roll_and_runs_again_only_if_told(
    person: Person, fleet: RestartingFleet
) -> None:
    fails = "echo oh no; exit 7"
    answer = person.types(*words(fleet, "--reason", "x", "--restart-command", fails))
    assert answer.code == 1
    first = next(b for b, phase in the_roll(fleet).phases.items() if phase == "restarting")
    assert f"halted: the restart of {first} failed: its command ended with exit code 7." in (
        answer.err
    )
    other = next(name for name in fleet.names if name != first)
    wrong = person.types(*words(fleet, "--resume", "--restart-again", other))
    assert (wrong.code, f"--restart-again {other}: it is waiting" in wrong.err) == (1, True)
    again = person.types(
        *words(fleet, "--resume", "--restart-again", first, "--restart-command", fleet.command)
    )
    assert again.code == 0, again.words
    assert sorted(fleet.done) == sorted(fleet.names)


def test_a_roll_by_hand_asks_the_person(person: Person, fleet: RestartingFleet) -> None:
    """Who restarts the broker some time after the terminal has asked for it."""
    first = sorted({*fleet.names} - {fleet.leader})[0]
    asked = person.types(*words(fleet, first, "--reason", "x", "--by", "bo"), stop_after_s=4)
    assert (asked.code, "the roll stays as it is" in asked.err) == (130, True), asked.err
    Timer(4, lambda: fleet.file.write_text(f"{first}\n")).start()
    answer = person.types(*words(fleet, "--resume"))
    assert answer.code == 0, answer.words
    assert f"RESTART {first} NOW: it is empty" in f"{asked.err}{answer.err}"
    assert fleet.done == [first]


def test_a_roll_is_cancelled(person: Person, fleet: RestartingFleet) -> None:
    person.types(*words(fleet, "--reason", "x", "--restart-command", "exit 1"))
    eventually(lambda: the_roll(fleet).state == "halted", 30)
    taken = person.types(*words(fleet, "--reason", "another", "--restart-command", "true"))
    assert (taken.code, "a roll is active" in taken.err) == (1, True), taken.err
    answer = person.types("roll", "--cancel", "--by", "bo", "--reason", "next week")
    assert answer.code == 0, answer.words
    for gone in ("--resume", "--cancel"):
        late = person.types(*words(fleet, gone))
        assert (late.code, "error: no roll of c is active" in late.err) == (1, True), late.words
    assert answer.out.startswith("the roll has ended (cancelled): bo ended it: next week")
    assert [one.state for one in fleet.job.rounds()[-1].intents if one.action == "drain"] == [
        "done"
    ]


def test_brokers_that_cannot_be_rolled(person: Person, fleet: RestartingFleet) -> None:
    for given, sentence in (
        (("nowhere:1",), "no broker nowhere:1 has reported"),
        (("--max-unavailable", "3"), "there would be none left"),
    ):
        answer = person.types(*words(fleet, *given, "--reason", "x"))
        assert (answer.code, sentence in answer.err) == (1, True), answer.err
    fleet.pulsar.cluster.brokers.append("new:1")
    answer = person.types(*words(fleet, "--reason", "x"))
    assert "new:1 is a broker of the cluster, and the newest round does not know it" in answer.err
    assert person.written() == []
