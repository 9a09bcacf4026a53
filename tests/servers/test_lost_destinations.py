"""Destinations that racing look-ups spend, on real modular brokers: what ends elsewhere without the
executor's claim and repair, and what does with them, in one run.
"""

import threading
from collections import Counter
from contextlib import closing
from math import comb
from pathlib import Path

import pytest

from sinks.executor.apply_or_recover import Applier, RetryPolicy
from sinks.executor.outcome_status_and_reason import Allowance, Effect
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.wire.record_decoding import read_command
from sinks.wire.record_encoding import encode_command
from tests.control_topic import command
from tools.servers.pulsar_processes import PulsarProcesses
from tools.traffic.bundle_users import Bundles
from tools.traffic.racing import producers_of, racing

pytestmark = pytest.mark.servers
_BUNDLES, _TOPICS = 8, 6
#: Of the moves that end elsewhere without help; fewer would prove nothing.
_ENOUGH = 5
#: Results that are less likely than this, if the share falls to exactly a tenth, fail.
_SIGNIFICANT = 0.01


@pytest.mark.slow
@pytest.mark.parametrize("moves", [50, 250])
def test_of_ten_destinations_that_look_ups_take_away_at_most_one_is_lost(
    modular: PulsarProcesses, tmp_path: Path, moves: int
) -> None:
    """Each move is a draw: the test fails if the draws contradict the share of a tenth."""
    cluster = modular.cluster
    namespace = cluster.namespace(f"race/all-{moves}", _BUNDLES)
    before = {"plain": Counter[str](), "verified": Counter[str]()}
    unloads = Counter[str]()
    with closing(PulsarAdmin(cluster.settings(tmp_path))) as admin:
        used = Bundles(cluster, admin, namespace)
        wait = threading.Event().wait
        applier = Applier(admin, RetryPolicy(3_000), wait)
        allowed = {
            "plain": Allowance(claims=False),
            "verified": Allowance(refuse_repair=lambda _: ""),
        }
        with producers_of(cluster, used.all, _TOPICS), racing(cluster, str(admin.leader())) as race:
            for number in range(moves):
                for way, allowance in allowed.items():
                    bundle = used.all[number % _BUNDLES]
                    source = used.owner(bundle)
                    destination = used.others(bundle)[number // _BUNDLES % 2]
                    move = read_command(encode_command(command(bundle, source, destination)))
                    with race.about(bundle):
                        effect = applier.apply(move, allowance)
                    before[way][_end(effect, destination)] += 1
                    unloads[bundle] += effect.unloads or 0
                    assert effect.unloads in ((1,) if way == "plain" else (1, 2)), effect
        print({way: dict(ends) for way, ends in before.items()})

    lost = {way: moves - ends["arrived"] - ends["repaired"] for way, ends in before.items()}
    assert lost["plain"] >= _ENOUGH, before
    assert _chance(lost["verified"], sum(lost.values())) > _SIGNIFICANT, before
    assert {bundle: modular.unloads(bundle) for bundle in unloads} == unloads


def _chance(verified: int, lost: int) -> float:
    """Of so many or more verified moves among all lost ones, if one is verified for ten plain."""
    return sum(comb(lost, k) * 0.1**k for k in range(verified, lost + 1)) / 1.1**lost


def _end(effect: Effect, destination: str) -> str:
    if effect.owner_after == destination:
        return "arrived" if effect.reason is None else effect.reason.partition(":")[0]
    return (effect.reason or "?").partition(":")[0]
