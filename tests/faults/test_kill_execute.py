"""The executor killed with −9 between applying and committing: no command is applied twice, none is
lost, nothing secret is shown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest

from sinks.wire.codec import decode_outcome
from tests.control_topic import command
from tests.lanes import variant
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tools.kills.kill_execute import faults_of, plan, run
from tools.processes.real_executor import TOKEN, RealExecutor

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="reads command lines in /proc"),
]


@pytest.mark.essential
@pytest.mark.parametrize(("manager", "seed"), [("modular", 1), variant("extensible", 2)])
def test_three_kills_apply_nothing_twice_and_lose_nothing(
    tmp_path: Path, manager: Literal["modular", "extensible"], seed: int
) -> None:
    result = run(tmp_path, plan(3, seed), manager)

    assert result.faults == []
    assert result.statuses == {"applied": 9}


def test_the_same_seed_plans_the_same_kills_of_every_moment() -> None:
    assert plan(20, seed=7) == plan(20, seed=7) != plan(20, seed=8)
    assert {kill.moment for kill in plan(3, seed=1)} == {"call lost", "call done", "later"}


def test_the_comparison_finds_what_it_is_to_find(tmp_path: Path) -> None:
    """Guards the test above."""
    bundles = [
        "t/ns/0x00000000_0x00000001",
        "t/ns/0x00000001_0x00000002",
        "t/ns/0x00000002_0x00000003",
    ]
    with FakePulsar(Cluster(token=TOKEN)) as pulsar, RealExecutor(tmp_path, pulsar) as executor:
        one, two, _ = pulsar.cluster.brokers
        pulsar.cluster.owners.update(dict.fromkeys(bundles, one))
        commands = [command(bundle, one, two) for bundle in bundles]
        executor.control.send(*commands[:2], key=executor.key)
        assert executor.finish("--apply") == 0
        assert faults_of(commands[:2], pulsar, executor) == []

        # Two commands at once: either may be applied and told first.
        (again,) = [done for done in pulsar.cluster.applied if done.bundle == bundles[0]]
        (told,) = [
            value
            for value in executor.control.read("outcomes")
            if decode_outcome(value).command_id == commands[1].id
        ]
        pulsar.cluster.applied.append(again)
        executor.control.write("outcomes", [told.replace(b'"applied"', b'"refused"')])
        executor.log.write_text(f"Authorization: Bearer {TOKEN}", "utf-8")

        assert faults_of(commands, pulsar, executor) == [
            f"{bundles[0]} was released 2 times",
            f"{commands[1].id} has 2 different outcomes",
            f"{bundles[2]} was released 0 times",
            f"{commands[2].id} has 0 different outcomes",
            f"{bundles[2]} is at {one}, not at {two}",
            "token in log.txt",
        ]
