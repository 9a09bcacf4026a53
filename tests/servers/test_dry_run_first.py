"""README's step 3 on a real cluster: a dry run first, then `--apply`, beside a loop that applies
from the start.

`pytest tests/servers/test_dry_run_first.py -rP` prints the figures.
"""

from pathlib import Path

import pytest

from tests.servers.test_closed_loop import told, wait_until_even
from tests.unit.command_line import rebalancer
from tools.processes.loop import GOAL, Loop, closed_loop
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.skewed_users import skewed_users

pytestmark = [pytest.mark.servers, pytest.mark.spark]
#: Of the traffic, by broker.
SHARES = (0.15, 0.25, 0.6)


@pytest.mark.parametrize("kind", ["pulsar", pytest.param("guarded_pulsar", marks=pytest.mark.slow)])
def test_going_live_after_a_dry_run_takes_one_round_more_at_most(
    cluster: PulsarCluster, tmp_path: Path
) -> None:
    after = rounds_until_even(cluster, tmp_path / "after-dry-runs", dry_runs=2)
    print(f"rounds with --apply until it is even: {after} after two dry runs")
    # Alone it takes one round at least: only more than two ask for the comparison, which costs a
    # second loop.
    if after > 2:
        alone = rounds_until_even(cluster, tmp_path / "apply-alone", dry_runs=0)
        print(f"rounds with --apply from the start until it is even: {alone}")
        assert after <= alone + 1


def rounds_until_even(cluster: PulsarCluster, folder: Path, *, dry_runs: int) -> int:
    """How many rounds with `execute --apply` there are up to the last whose commands were
    needed.
    """
    folder.mkdir()
    manager = "extensible" if cluster.guarded else "modular"
    with (
        closed_loop(
            folder / "loop", cluster.settings(folder), filters__load_manager=manager
        ) as loop,
        skewed_users(cluster, folder, f"t/{folder.name}", shares=SHARES) as users,
    ):
        told(f"{folder.name}, at the start", users)
        assert users.spread() > GOAL
        if dry_runs:
            owners = users.owners()
            loop.begin("collect")
            for _ in range(dry_runs):
                dry_run(loop)
            assert users.owners() == owners
            loop.start("execute")
        else:
            loop.begin("execute")
        loop.wait_until(lambda: working(loop), "the executor works")
        if not dry_runs:
            loop.start("collect")
        before = loop.count("rounds")
        wait_until_even(users, loop)
        told(f"even after {loop.count('rounds') - before} rounds", users)
        applied = {one.command_id for one in loop.outcomes() if one.status == "applied"}
        last = max(one.round for one in loop.commands() if one.id in applied)
        loop.stop("collect", "execute", "run")
        users.end()
    return max(1, last - before)


def working(loop: Loop) -> bool:
    """Starting the program takes as long as it takes, and is no round."""
    return "applying commands" in loop.log("execute").read_text("utf-8")


def dry_run(loop: Loop) -> None:
    """`execute --once` answers the commands of a round that no dry run has answered yet."""
    known = {one.command_id for one in loop.outcomes()}
    loop.wait_until(
        lambda: any(one.id not in known for one in loop.commands()), "a round with commands"
    )
    print(rebalancer("execute", "--once", *loop.words).out)
    assert {one.status for one in loop.outcomes()} <= {"dry-run", "expired"}
    newest = loop.outcomes()[-1]
    assert "outcome: " in rebalancer("explain", newest.command_id, *loop.words).out
