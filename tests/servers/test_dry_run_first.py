"""README's step 3 on a real cluster: a dry run first, then `--apply`, beside a loop that applies from the start.

`pytest tests/servers/test_dry_run_first.py -rP` prints the figures.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.loop import GOAL, closed_loop
from tests.servers.pulsar_cluster import PulsarCluster
from tests.servers.skewed_users import skewed_users
from tests.servers.test_closed_loop import told, wait_until_even
from tests.unit.command_line import rebalancer

pytestmark = [pytest.mark.servers, pytest.mark.spark]
MANAGERS = {"modular": "pulsar", "extensible": "guarded_pulsar"}


@pytest.mark.parametrize("manager", ["modular", pytest.param("extensible", marks=pytest.mark.slow)])
def test_going_live_after_a_dry_run_takes_one_round_more_at_most(manager: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    cluster: PulsarCluster = request.getfixturevalue(MANAGERS[manager])
    after = rounds_until_even(cluster, tmp_path / "after-dry-runs", manager, dry_runs=2)
    alone = rounds_until_even(cluster, tmp_path / "apply-alone", manager, dry_runs=0)
    print(f"rounds with --apply until it is even: {alone} alone, {after} after two dry runs")
    assert after <= alone + 1


def rounds_until_even(cluster: PulsarCluster, folder: Path, manager: str, *, dry_runs: int) -> int:
    """How many rounds close from the start of `execute --apply` until clients see an even cluster."""
    folder.mkdir()
    with (
        closed_loop(folder / "loop", cluster.settings(folder), filters__load_manager=manager) as loop,
        skewed_users(cluster, folder, f"t/{manager}-{folder.name}") as users,
    ):
        told("at the start", users)
        assert users.spread() > GOAL
        owners = users.owners()
        loop.begin("collect")
        for _ in range(dry_runs):
            known = {one.command_id for one in loop.outcomes()}
            loop.wait_until(lambda known=known: any(one.id not in known for one in loop.commands()), "a round with commands")  # type: ignore[misc]
            print(rebalancer("execute", "--once", *loop.words).out)
        assert {one.status for one in loop.outcomes()} <= {"dry-run", "expired"}
        assert users.owners() == owners
        before = loop.count("rounds")
        loop.start("execute")
        wait_until_even(users, loop)
        rounds = loop.count("rounds") - before
        told(f"even after {rounds} rounds", users)
        loop.stop("collect", "execute", "run")
        users.end()
    return rounds
