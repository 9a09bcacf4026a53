"""Shadow mode beside Pulsar's own shedder: what it unloads on a real cluster is seen, and compared
with what we wanted.

`pytest tests/servers/test_shadow_mode.py -m slow -rP` prints the report.
"""

from pathlib import Path

import pytest

from tests.servers.test_closed_loop import own_shedder, told, wait_for_rounds
from tests.unit.command_line import rebalancer
from tools.processes.loop import Loop, closed_loop
from tools.servers.pulsar_cluster import pulsar_cluster
from tools.traffic.skewed_users import skewed_users

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
#: The rule and the limits that the loop has, in Pulsar's words.
SHEDDER = own_shedder(ratio="1.35")


def test_what_pulsars_own_shedder_unloads_is_seen_and_compared_with_our_rounds(
    jdk: None, tmp_path: Path
) -> None:
    (tmp_path / "pulsar").mkdir()
    with pulsar_cluster(tmp_path / "pulsar", more=SHEDDER) as cluster:
        settings = cluster.settings(tmp_path)
        with (
            closed_loop(tmp_path / "loop", settings, None, rivals__moves_per_hour=0) as loop,
            skewed_users(cluster, tmp_path, "t/shadowed") as users,
        ):
            told("at the start", users)
            load, before = users.load(), users.owners()
            busiest = max(load, key=lambda broker: load[broker])
            loop.begin("collect")
            loop.wait_until(lambda: len(loop.commands()) > 0, "we want something moved")
            assert users.owners() == before, "nobody acts yet"

            cluster.post("brokers/configuration/loadBalancerSheddingEnabled/true", None)
            assert shedding(loop) == "ok", "the built-in shedder is on, as shadow mode requires"
            loop.wait_until(
                lambda: len(moved(before, users.owners())) > 0, "Pulsar's shedder unloads"
            )
            loop.wait_until(
                lambda: len(users.owners()) == len(users.rates), "everything has an owner again"
            )
            after = users.owners()
            told("by Pulsar's shedder", users)
            wait_for_rounds(3, loop)
            report = rebalancer("shadow", "--json", *loop.words).json
            print(rebalancer("shadow", *loop.words).out)
    seen = {one["bundle"] for one in report["bundles"] if one["verdict"] != "only-ours"}
    assert seen >= moved(before, after)
    assert report["both"] > 0
    assert busiest in {one["source"] for one in report["bundles"] if one["verdict"] == "both"}


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {bundle for bundle, owner in after.items() if owner != before[bundle]}


def shedding(loop: Loop) -> str:
    said = rebalancer("doctor", "--shadow", "--no-spark-start", "--json", *loop.words).json
    (found,) = [one["status"] for one in said["findings"] if one["check"] == "built-in shedding"]
    return str(found)
