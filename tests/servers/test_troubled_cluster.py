"""A real cluster whose metadata store, or a broker, hangs in the middle of a wave of moves: no
further unload begins, every command says why, and moves go on afterwards.

The long tests freeze for longer than a session lasts: brokers lose theirs.
"""

from pathlib import Path

import pytest

from tools.traffic.troubled import SESSION_S, troubled

pytestmark = pytest.mark.servers
_SHORT_S, _LONG_S = 20, 60


@pytest.mark.slow
def test_a_store_and_then_a_broker_that_hang_for_a_moment(jdk: None, tmp_path: Path) -> None:
    with troubled(tmp_path) as cluster:
        cluster.freeze("storage", _SHORT_S)
        cluster.freeze(cluster.processes.cluster.brokers[1], _SHORT_S)
        print(cluster.traveller.end())


@pytest.mark.slow
@pytest.mark.parametrize("part", ["storage", "first broker", "last broker"])
def test_a_part_that_hangs_for_a_minute(jdk: None, tmp_path: Path, part: str) -> None:
    assert SESSION_S < _LONG_S
    with troubled(tmp_path) as cluster:
        first, *_, last = cluster.processes.cluster.brokers
        names = {"storage": "storage", "first broker": first, "last broker": last}
        cluster.freeze(names[part], _LONG_S)
        print(cluster.traveller.end())
