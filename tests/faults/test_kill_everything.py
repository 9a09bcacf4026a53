"""A whole installation under kills: job, Python workers, executor, collector and Kafka broker. Who
counts ids once sees the undisturbed run, and every command has one verdict.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.settings import PulsarSettings
from sinks.wire.codec import encode_outcome
from tests.control_topic import command, outcome
from tests.pulsar_fake.model import Applied, Cluster
from tests.pulsar_fake.server import FakePulsar
from tools.kills.installation import VICTIMS, Running, started_by_java
from tools.kills.kill_everything import plan, run, wrong_outcomes
from tools.kills.wavering import WaveringLoad

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
pytestmark = pytest.mark.faults
A, B, ONE, TWO = "a:1", "b:1", "t/ns/0x00000000_0x01000000", "t/ns/0x01000000_0x02000000"


def killed(folder: Path, kills: int, seed: int) -> None:
    found = run(folder, plan(kills, seed), seed)
    assert found.faults == []
    assert found.kills == dict.fromkeys(VICTIMS, kills // len(VICTIMS))
    assert min(one.records for one in found.comparisons) > 0
    assert sum(found.statuses.values()) > 0


@linux_only
@pytest.mark.servers
@pytest.mark.spark
def test_five_kills_lose_and_change_nothing(tmp_path: Path) -> None:
    """One of each process."""
    killed(tmp_path, kills=5, seed=3)


@linux_only
@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.slow
def test_two_hundred_kills_lose_and_change_nothing(tmp_path: Path) -> None:
    killed(tmp_path, kills=200, seed=7)


def test_the_same_seed_plans_the_same_kills_of_all_processes() -> None:
    assert plan(200, seed=7) == plan(200, seed=7) != plan(200, seed=8)
    kills = plan(200, seed=7)
    assert Counter(kill.victim for kill in kills) == dict.fromkeys(VICTIMS, 40)
    assert {(kill.victim, kill.sharp) for kill in kills} == {
        (victim, sharp) for victim in VICTIMS for sharp in (True, False)
    }


def test_what_may_be_wrong_with_outcomes() -> None:
    moved, other = command(ONE, A, B), command(TWO, A, B)
    done = encode_outcome(outcome(moved, "applied"))
    late = encode_outcome(outcome(other, "expired", "expired: too late"))
    release = Applied("unload", ONE, A, B)
    commands = [moved, other]

    assert wrong_outcomes(commands, [done, late, done], [release]) == []
    assert wrong_outcomes(commands, [done], [release]) == [f"{other.id} has 0 verdicts"]
    twice = encode_outcome(outcome(other, "applied"))
    assert wrong_outcomes(commands, [done, late, twice], [release]) == [
        f"{other.id} has 2 verdicts"
    ]
    assert wrong_outcomes([moved], [done, late], [release]) == [
        f"an outcome for {other.id}, which no command has caused"
    ]
    assert wrong_outcomes([*commands, moved], [done, late], [release, release]) == [
        f"{ONE} was released 2 times, by 1 commands"
    ]
    # Nothing may have happened for a command that expired.
    assert wrong_outcomes([other], [late], [Applied("unload", TWO, A, B)]) == [
        f"{TWO} was released 1 times, by 0 commands"
    ]


def test_a_command_that_is_published_again_is_answered_by_its_verdict() -> None:
    moved = command(ONE, A, B)
    done = encode_outcome(outcome(moved, "applied"))
    again = encode_outcome(outcome(moved, "already-done", "replayed: carried out before", 6))
    third = encode_outcome(outcome(moved, "already-done", "replayed: carried out before", 7))
    other = encode_outcome(outcome(moved, "expired", "replayed: had expired before", 7))

    assert wrong_outcomes([moved, moved], [done, again], []) == []
    assert wrong_outcomes([moved], [done, again], []) == [
        f"{moved.id} has 1 repeated verdicts, and was published 1 times"
    ]
    assert wrong_outcomes([moved, moved], [done, again, third], []) != []
    assert wrong_outcomes([moved, moved], [again], []) == [f"{moved.id} has 0 verdicts"]
    assert wrong_outcomes([moved, moved], [done, other], []) == [
        f"{moved.id} was applied, and is expired when it comes again"
    ]


def test_the_workers_are_the_processes_started_by_java() -> None:
    processes = {
        10: Running("python3.11", 1),  # the driver
        11: Running("java", 10),
        12: Running("python3.11", 11),  # the daemon
        13: Running("python3.11", 12),
        14: Running("python3.11", 12),
        15: Running("python3.11", 10),  # a thread of ours that became a process
    }
    assert started_by_java(processes) == [12, 13, 14]
    del processes[12]  # killed: its workers go on
    processes |= {13: Running("python3.11", 1), 14: Running("python3.11", 1)}
    assert started_by_java(processes) == [13, 14]
    del processes[11]
    assert started_by_java(processes) == []


def test_the_load_of_the_fake_cluster_moves_with_its_bundles() -> None:
    with FakePulsar(Cluster()) as pulsar:
        pulsar.faults = WaveringLoad.of(pulsar, 3, seed=1)
        one, two, three = pulsar.cluster.brokers
        (bundle,) = (name for name, owner in pulsar.cluster.owners.items() if owner == one)
        with closing(PulsarAdmin(PulsarSettings("c", pulsar.admin_urls))) as admin:
            assert json.loads(admin.load_report(one))["bundles"] == [bundle]
            admin.unload(bundle, two)
            assert admin.owner(bundle) == two
            assert json.loads(admin.load_report(one))["bundles"] == []
            assert bundle in json.loads(admin.load_report(two))["bundles"]
            assert bundle not in json.loads(admin.load_report(three))["bundles"]
