"""Something else moves bundles of a real cluster while the loop balances it: rounds yield within
two rounds, say who it is, and act again by themselves.

`pytest tests/servers/test_rivals.py -rP` prints what rounds said.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from strategies.cluster.model import Round
from tests.servers.test_closed_loop import own_shedder, wait_for_rounds
from tools.processes.loop import Loop, closed_loop
from tools.servers.pulsar_cluster import PulsarCluster, pulsar_cluster
from tools.traffic.skewed_users import Users, skewed_users
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
#: Brokers of this cluster unload one bundle after the other down to a smaller ratio than ours, once
#: a user switches their shedder on.
SHEDDER = own_shedder(ratio="1.02")
#: Of the script. A person's moves of an hour would be fewer.
_MOVES, _LIMIT = 8, 5
#: Lists of bundles count 90 s after the first sweep, and rounds act again after as long.
_WATCHED_MS, _CALM_MS = 95_000, 30_000
RIVALS = {"rivals__moves_per_hour": _LIMIT, "rivals__calm_ms": _CALM_MS}


@pytest.mark.parametrize("kind", ["pulsar", "guarded_pulsar"])
def test_rounds_yield_to_a_script_and_act_again_when_it_has_ended(
    cluster: PulsarCluster, tmp_path: Path
) -> None:
    with watched(cluster, tmp_path, "t/rival") as (loop, users):
        last = unload_by_script(users, loop)
        first = yields(loop, users, "off")
        print(f"{first.round - last} rounds after the last unload")
        assert first.round - last <= 2
        act_again(loop)
        rounds = loop.rounds()
    print([(code, len(list(group))) for code, group in groupby(map(state, rounds))])
    assert not any(one.commands for one in rounds if state(one) == "yielding")


def test_rounds_yield_to_pulsars_own_shedder_that_somebody_switches_on(
    jdk: None, tmp_path: Path
) -> None:
    (tmp_path / "pulsar").mkdir()
    with (
        pulsar_cluster(tmp_path / "pulsar", more=SHEDDER) as cluster,
        watched(cluster, tmp_path, "t/shed", rivals__moves_per_hour=1) as (loop, users),
    ):
        cluster.post("brokers/configuration/loadBalancerSheddingEnabled/true", None)
        yields(loop, users, "on")
        cluster.post("brokers/configuration/loadBalancerSheddingEnabled/false", None)
        act_again(loop)


@contextmanager
def watched(
    cluster: PulsarCluster, folder: Path, namespace: str, **more: object
) -> Iterator[tuple[Loop, Users]]:
    """A loop that has balanced the cluster, and long enough to know moves that are not its own."""
    manager = "extensible" if cluster.guarded else "modular"
    given = {**RIVALS, "filters__load_manager": manager, **more}
    with (
        closed_loop(folder / "loop", cluster.settings(folder), None, **given) as loop,
        skewed_users(cluster, folder, namespace) as users,
    ):
        loop.begin()
        wait_for_rounds(1, loop)
        began = loop.rounds()[0].ts
        loop.wait_until(
            lambda: loop.rounds()[-1].ts - began > _WATCHED_MS, "lists of bundles count"
        )
        assert all(state(one) != "yielding" for one in loop.rounds()), "our own moves are ours"
        yield loop, users


def unload_by_script(users: Users, loop: Loop) -> int:
    """Unloads bundles one after the other to the next broker; returns the round that was open at
    the last one.
    """
    for bundle in sorted(users.rates)[:_MOVES]:
        owner, brokers = users.owners()[bundle], users.admin.brokers()
        users.admin.unload(bundle, brokers[(brokers.index(owner) + 1) % len(brokers)])
        eventually(partial(_is_elsewhere, users, bundle, owner))
    return loop.rounds()[-1].round + 1


def _is_elsewhere(users: Users, bundle: str, owner: str) -> bool:
    return users.owners().get(bundle) not in (None, owner)


def yields(loop: Loop, users: Users, shedder: str) -> Round:
    """The first round that yields; it says whether Pulsar's own shedder is on or off, and where."""

    def found() -> list[Round]:
        return [one for one in loop.rounds() if state(one) == "yielding"]

    loop.wait_until(lambda: len(found()) > 0, "a round yields")
    first, *_ = found()
    said = "" if first.state is None else first.state.text
    print(said)
    assert f"Pulsar's own shedder is {shedder} at the leader" in said
    assert str(users.admin.leader()) in said
    return first


def act_again(loop: Loop) -> None:
    loop.wait_until(lambda: state(loop.rounds()[-1]) != "yielding", "rounds act again")
    loop.stop("collect", "execute")


def state(one: Round) -> str:
    return "" if one.state is None else one.state.code
