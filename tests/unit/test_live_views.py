"""The live page: its newest rounds of each cluster, in any order of records and within bounds;
figures and pictures. Documents are in tests/golden/live_page.txt.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import orjson
import pytest

from pulsar_rebalancer.decisions.live import charts, page_views
from pulsar_rebalancer.decisions.live.packed_rounds import packed
from pulsar_rebalancer.decisions.live.snapshot_fold import MOST_CLUSTERS, LiveCluster, LiveFold
from pulsar_rebalancer.decisions.read_status import TelemetryHead
from sinks.wire.operator_records import command_digest
from sinks.wire.record_encoding import encode_command, encode_round
from strategies.cluster.model import Round
from tests.control_topic import command, outcome
from tests.live_topics import MadeUpCluster

NOW = 1_795_000_000_000
SETTINGS = page_views.ViewSettings()


def only(fold: LiveFold, now_ms: int = NOW) -> LiveCluster:
    """The one cluster that was folded."""
    (found,) = fold.clusters(now_ms).values()
    return found


def cluster(made: MadeUpCluster) -> LiveCluster:
    return only(folded(made))


def of_rounds(*rounds: Round) -> LiveFold:
    fold = LiveFold()
    for one in rounds:
        fold.add_round(one)
    return fold


def folded(made: MadeUpCluster, most: int = 500) -> LiveFold:
    fold = LiveFold(most)
    for done, commands, outcomes in made.made():
        fold.add_round(done)
        for one in commands:
            fold.add_command(one, command_digest(encode_command(one)))
        for given in outcomes:
            fold.add_outcome(given)
    return fold


def test_brokers_are_listed_with_what_is_expected() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=20))
    found = page_views.brokers(one)
    expected = one.decisions.rounds[-1].round.usage_after[found["names"][0]]
    assert found["after"][0] == round(1_000 * expected) < found["usage"][0]


def test_the_map_of_usage_has_a_row_per_broker_and_a_column_per_round() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=30))
    found = charts.usage_over_time(one)
    cells = np.frombuffer(b64decode(found["cells"]), np.uint8).reshape(12, 30)
    names = [row["name"] for row in found["rows"]]
    assert [name.split(".")[0] for name in names] == [f"broker-{n}" for n in range(12)]
    for column, kept in enumerate(one.decisions.rounds):
        for row, name in enumerate(names):
            assert abs(cells[row, column] / 200 - kept.round.usage[name]) < 0.006
    assert found["lines"][0][-1] == round(1_000 * one.decisions.rounds[-1].usage[0])


def test_the_map_of_many_brokers_shows_the_highest_of_each_group_and_stays_small() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=1_000, rounds=12))
    found = charts.usage_over_time(one)
    cells = np.frombuffer(b64decode(found["cells"]), np.uint8).reshape(charts.MOST_ROWS, 12)
    assert sum(row["count"] for row in found["rows"]) == 1_000
    assert found["lines"] == []
    newest = one.decisions.rounds[-1].round
    highest = max(newest.usage.values())
    assert cells[:, -1].max() == round(200 * highest)
    assert found["levels"][-1][0] == round(1_000 * highest)
    assert found["levels"][-1][-1] == round(1_000 * min(newest.usage.values()))


def with_usage(one: Round, usage: Mapping[str, float]) -> Round:
    return replace(one, brokers=tuple(usage), usage=usage, usage_after=usage)


def test_an_unknown_usage_is_no_zero() -> None:
    made = [done for done, _, _ in MadeUpCluster(NOW, cluster="c", brokers=3, rounds=2).made()]
    usage = {name: value for name, value in made[1].usage.items() if name != made[1].brokers[1]}
    one = only(of_rounds(made[0], with_usage(made[1], usage)))
    cells = b64decode(charts.usage_over_time(one)["cells"])
    assert cells[3] == charts.UNKNOWN
    assert charts.UNKNOWN not in (cells[2], cells[4], cells[5])


def test_figures_that_no_browser_can_read_do_not_break_the_page() -> None:
    made = [done for done, _, _ in MadeUpCluster(NOW, cluster="c", brokers=3, rounds=1).made()]
    usage = dict(zip(made[0].brokers, (float("inf"), 1e300, -5.0), strict=True))
    one = only(of_rounds(with_usage(made[0], usage)))
    for found in (page_views.brokers(one), charts.usage_over_time(one)):
        assert b"Infinity" not in orjson.dumps(found)


def test_bundles_are_listed_by_their_newest_command_with_the_answer() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=300))
    found = charts.bundles_over_time(one)
    assert len(found["columns"]) == charts.MOST_COLUMNS
    newest = {one.bundle for one in one.decisions.log.commands if one.round == 300}
    assert {row["bundle"] for row in found["rows"][: len(newest)]} == newest
    assert sum(cell[2] for cell in found["cells"]) == len(one.decisions.log.commands)
    last = next(cell for cell in found["cells"] if cell[:2] == [0, charts.MOST_COLUMNS - 1])
    assert found["answers"][last[3]] == "open"


def test_history_counts_answers_and_their_absence() -> None:
    found = page_views.history(cluster(MadeUpCluster(NOW, brokers=12, rounds=60)))["rounds"]
    assert found[0]["answers"] == {"open": 6}
    assert sum(found[15]["answers"].values()) == found[15]["commands"] == 6
    assert set(found[15]["answers"]) == {"applied", "refused", "dry-run"}


MADE = MadeUpCluster(NOW, cluster="c", brokers=6, rounds=40)
ROUNDS = [done for done, _, _ in MADE.made()]


def test_a_round_in_little_memory_is_the_same_round() -> None:
    before = None
    for one in ROUNDS:
        before = packed(one, before, 1)
        assert encode_round(before.round) == encode_round(one)


def test_rounds_share_the_names_of_their_brokers() -> None:
    decoded = [replace(one, brokers=tuple(f"{name}" for name in one.brokers)) for one in ROUNDS]
    kept = only(of_rounds(*decoded)).decisions.rounds
    assert len({id(one.places) for one in kept}) == 1
    assert len({id(one.round.brokers) for one in kept}) == 1


def test_brokers_may_come_and_go() -> None:
    first, second, third = ROUNDS[:3]
    without = {name: usage for name, usage in second.usage.items() if name != second.brokers[0]}
    more = {**third.usage, "new:8080": 0.5}
    fold = of_rounds(first, with_usage(second, without), with_usage(third, more))
    kept = [one.round for one in only(fold).decisions.rounds]
    assert [dict(one.usage) for one in kept] == [dict(first.usage), without, more]
    with pytest.raises(KeyError):
        kept[1].usage[second.brokers[0]]


def test_the_order_of_the_records_does_not_matter_and_repeated_ones_count_once() -> None:
    commands = [one for _, given, _ in MADE.made() for one in given]
    outcomes = [one for _, _, given in MADE.made() for one in given]
    forward, backward = LiveFold(), LiveFold()
    for fold, order in ((forward, 1), (backward, -1)):
        for _ in range(2):
            for answer in outcomes[::order]:
                fold.add_outcome(answer)
            for one in commands[::order]:
                fold.add_command(one)
            for done in ROUNDS[::order]:
                fold.add_round(done)
    first, second = only(forward).decisions.log, only(backward).decisions.log
    assert [one.round for one in first.rounds] == [one.round for one in second.rounds]
    assert first.by_id == second.by_id
    assert {*first.outcomes} == {*second.outcomes}
    assert len(first.rounds) == len(ROUNDS) == 40


def test_only_the_newest_rounds_stay_with_their_commands_and_outcomes() -> None:
    fold = folded(MADE, most=10)
    kept = only(fold).decisions
    assert [one.round.round for one in kept.rounds] == list(range(31, 41))
    assert {one.round for one in kept.log.commands} == {40}
    assert {one.command_id for one in kept.log.outcomes} <= kept.log.by_id.keys()
    fold.add_round(ROUNDS[0])
    fold.add_command(command("t/ns/0x00000000_0x80000000", "a:1", round=3))
    assert [one.round.round for one in only(fold).decisions.rounds] == list(range(31, 41))
    assert len(only(fold).decisions.log.commands) == len(kept.log.commands)


def test_a_newer_epoch_is_newer_whatever_its_numbers() -> None:
    fold = of_rounds(*ROUNDS, replace(ROUNDS[0], epoch=2))
    assert only(fold).decisions.rounds[-1].key == (2, 1)


def test_what_did_not_change_is_the_same_object() -> None:
    fold = of_rounds(*ROUNDS)
    before = only(fold)
    assert only(fold) is before
    fold.add_telemetry(TelemetryHead("c", NOW, "load-report"))
    assert only(fold) is not before
    assert only(fold).decisions is before.decisions
    sweep = TelemetryHead("c", NOW, "sweep", ["a:1"])
    fold.add_telemetry(sweep)
    assert only(fold).sweep == sweep


def test_a_round_counts_as_changed_when_a_command_of_it_is_answered_or_expires() -> None:
    fold = of_rounds(*ROUNDS)
    given = command("t/ns/0x00000000_0x80000000", "a:1", round=7, expires_at_ms=NOW + 1_000)
    fold.add_command(given)
    first = only(fold).decisions
    fold.add_outcome(outcome(given, "applied"))
    second = only(fold).decisions
    fold.tick(NOW + 2_000)
    assert [one.round.round for one in second.rounds if one.changed > first.version] == [7]
    assert only(fold).decisions is second, "it was answered before it expired"
    other = replace(given, id="another", round=8)
    fold.add_command(other)
    third = only(fold).decisions
    fold.tick(NOW + 2_000)
    fourth = only(fold, NOW + 2_000).decisions
    assert [one.round.round for one in fourth.rounds if one.changed > third.version] == [8]


def test_a_cluster_that_decides_takes_the_place_of_one_that_vanished() -> None:
    fold = LiveFold()
    for number in range(MOST_CLUSTERS):
        fold.add_telemetry(TelemetryHead(f"cluster-{number}", NOW, "load-report"))
    fold.add_telemetry(TelemetryHead("cluster-0", NOW + 1, "load-report"))
    fold.add_round(replace(ROUNDS[0], cluster="new"))
    clusters = fold.clusters(NOW)
    assert (len(clusters), fold.left_out) == (MOST_CLUSTERS, 0)
    assert clusters.keys() >= {"new", "cluster-0"}
    assert "cluster-1" not in clusters


def test_hostile_records_cannot_fill_the_memory_with_clusters_or_codes() -> None:
    fold = LiveFold()
    for number in range(MOST_CLUSTERS + 50):
        fold.add_rejected(f"cluster-{number}", "bad")
    for number in range(1_000):
        fold.add_rejected("cluster-0", f"code-{number}")
    clusters = fold.clusters(NOW)
    assert (len(clusters), fold.left_out) == (MOST_CLUSTERS, 50)
    assert len(clusters["cluster-0"].rejected) <= 101
    assert sum(clusters["cluster-0"].rejected.values()) == 1_001
