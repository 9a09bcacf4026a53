"""Figures and pictures of the live page, in a size that does not grow with the cluster.
Its documents are in tests/golden/live_page.txt.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace

import numpy as np
import orjson

from pulsar_rebalancer.decisions.live import pictures, views
from pulsar_rebalancer.decisions.live.fold import LiveFold
from pulsar_rebalancer.decisions.live.snapshot import LiveCluster
from sinks.wire.command_digest import command_digest
from sinks.wire.encoding import encode_command
from tests.live_topics import MadeUpCluster

NOW = 1_795_000_000_000
SETTINGS = views.ViewSettings()


def cluster(made: MadeUpCluster, now_ms: int = NOW) -> LiveCluster:
    (found,) = folded(made).clusters(now_ms).values()
    return found


def folded(made: MadeUpCluster) -> LiveFold:
    fold = LiveFold()
    for done, commands, outcomes in made.made():
        fold.add_round(done)
        for one in commands:
            fold.add_command(one, command_digest(encode_command(one)))
        for given in outcomes:
            fold.add_outcome(given)
    return fold


def test_brokers_are_listed_by_usage_with_what_is_expected() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=20))
    newest = one.decisions.rounds[-1].round

    found = views.brokers(one.decisions)

    assert found["usage"] == sorted(found["usage"], reverse=True)
    assert set(found["names"]) == set(newest.brokers)
    first = found["names"][0]
    assert found["usage"][0] == round(1_000 * newest.usage[first])
    assert found["after"][0] == round(1_000 * newest.usage_after[first])
    assert found["after"][0] < found["usage"][0]


def test_the_map_of_usage_has_a_row_per_broker_and_a_column_per_round() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=30))

    found = pictures.usage_over_time(one.decisions)

    cells = np.frombuffer(b64decode(found["cells"]), np.uint8).reshape(12, 30)
    assert [row["name"].split(".")[0] for row in found["rows"]] == [
        f"broker-{n}" for n in range(12)
    ]
    for column, kept in enumerate(one.decisions.rounds):
        for row, name in enumerate(row["name"] for row in found["rows"]):
            assert abs(cells[row, column] / 200 - kept.round.usage[name]) < 0.006
    assert found["lines"][0][-1] == round(1_000 * one.decisions.rounds[-1].usage[0])


def test_the_map_of_many_brokers_shows_the_highest_of_each_group_and_stays_small() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=1_000, rounds=12))

    found = pictures.usage_over_time(one.decisions)

    cells = np.frombuffer(b64decode(found["cells"]), np.uint8).reshape(pictures.MOST_ROWS, 12)
    assert sum(row["count"] for row in found["rows"]) == 1_000
    assert found["lines"] == []
    newest = one.decisions.rounds[-1].round
    highest = max(newest.usage.values())
    assert cells[:, -1].max() == round(200 * highest)
    assert found["levels"][-1][0] == round(1_000 * highest)
    assert found["levels"][-1][-1] == round(1_000 * min(newest.usage.values()))


def test_an_unknown_usage_is_no_zero() -> None:
    made = [done for done, _, _ in MadeUpCluster(NOW, cluster="c", brokers=3, rounds=2).made()]
    usage = {name: value for name, value in made[1].usage.items() if name != made[1].brokers[1]}
    fold = LiveFold()
    fold.add_round(made[0])
    fold.add_round(replace(made[1], brokers=tuple(usage), usage=usage, usage_after=usage))
    (one,) = fold.clusters(NOW).values()

    cells = b64decode(pictures.usage_over_time(one.decisions)["cells"])

    assert cells[3] == pictures.UNKNOWN
    assert pictures.UNKNOWN not in (cells[2], cells[4], cells[5])


def test_figures_that_no_browser_can_read_do_not_break_the_page() -> None:
    made = [done for done, _, _ in MadeUpCluster(NOW, cluster="c", brokers=3, rounds=1).made()]
    usage = dict(zip(made[0].brokers, (float("inf"), 1e300, -5.0), strict=True))
    fold = LiveFold()
    fold.add_round(replace(made[0], usage=usage, usage_after=usage))
    (one,) = fold.clusters(NOW).values()

    for found in (views.brokers(one.decisions), pictures.usage_over_time(one.decisions)):
        assert b"Infinity" not in orjson.dumps(found)


def test_bundles_are_listed_by_their_newest_command_with_the_answer() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=300))

    found = pictures.bundles_over_time(one.decisions, NOW)

    assert len(found["columns"]) == pictures.MOST_COLUMNS
    newest = {one.bundle for one in one.decisions.log.commands if one.round == 300}
    assert {row["bundle"] for row in found["rows"][: len(newest)]} == newest
    assert sum(cell[2] for cell in found["cells"]) == len(one.decisions.log.commands)
    last = [
        cell for cell in found["cells"] if cell[0] == 0 and cell[1] == pictures.MOST_COLUMNS - 1
    ]
    assert found["answers"][last[0][3]] == "open"


def test_history_is_newest_first_and_counts_answers() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=60))

    found = views.history(one.decisions, NOW)

    assert [row["round"] for row in found["rounds"]] == list(range(60, 0, -1))
    assert found["rounds"][0]["answers"] == {"open": 6}
    acted = found["rounds"][15]
    assert sum(acted["answers"].values()) == acted["commands"] == 6
    assert set(acted["answers"]) == {"applied", "refused", "dry-run"}
    assert views.history(one.decisions, NOW, found["version"])["rounds"] == []
