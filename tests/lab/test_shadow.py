"""Shadow mode: moves are seen in ownership, and paired with what we wanted."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.lab.shadow.agreement import Agreement, compare
from pulsar_rebalancer.lab.shadow.ownership import Moved, OwnershipWatch
from pulsar_rebalancer.lab.tables.shadow import sentence
from strategies.cluster.model import Command
from tests.control_topic import Control, command
from tests.telemetry_lines import T0, bundle, line, load_report
from tests.unit.command_line import rebalancer

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
A, B, C = "a:8080", "b:8080", "c:8080"
ONE, TWO, THREE = bundle(1), bundle(2), bundle(3)


def has(broker: str, seconds: float, *bundles: str) -> bytes:
    return load_report(broker, seconds, dict.fromkeys(bundles, 10.0))


def sweep(seconds: float, *alive: str, missing: Iterable[str] = ()) -> bytes:
    return line(
        "sweep",
        seconds,
        sweep=int(seconds),
        brokers=list(alive),
        missing=dict.fromkeys(missing, "silent"),
    )


def note(broker: str, seconds: float, *bundles: str) -> bytes:
    return line(
        "note",
        seconds,
        note="owned-bundles",
        broker=broker,
        report={key: {"is_active": True} for key in bundles},
    )


def moves(*lines: bytes) -> list[tuple[str, str, str]]:
    watch = OwnershipWatch()
    found = [moved for one in lines for moved in watch.feed(one)]
    return [(moved.bundle, moved.source, moved.destination) for moved in [*found, *watch.rest()]]


def test_a_bundle_that_another_living_broker_has_now_was_moved() -> None:
    assert moves(
        has(A, 0, ONE, TWO),
        has(B, 0),
        sweep(1, A, B),
        has(A, 10, TWO),
        has(B, 10, ONE),
        sweep(11, A, B),
    ) == [(ONE, A, B)]


def test_it_does_not_matter_how_long_nobody_had_it() -> None:
    assert moves(
        has(A, 0, ONE),
        sweep(1, A, B),
        has(A, 10),
        sweep(11, A, B),
        has(B, 20, ONE),
        sweep(21, A, B),
    ) == [(ONE, A, B)]


def test_who_has_not_noticed_yet_that_a_bundle_left_does_not_get_it_back() -> None:
    late = [
        one
        for seconds in (10, 20)
        for one in (has(A, seconds, ONE), has(B, seconds, ONE), sweep(seconds + 1, A, B))
    ]
    begin = [has(A, 0, ONE), has(B, 0), sweep(1, A, B)]
    assert moves(*begin, *late) == [(ONE, A, B)]
    assert moves(
        *begin, *late, has(A, 30), has(B, 30, ONE), has(A, 40, ONE), has(B, 40), sweep(41, A, B)
    ) == [(ONE, A, B), (ONE, B, A)]
    assert moves(*begin, *late, has(B, 30), has(A, 30, ONE), sweep(31, A, B)) == [
        (ONE, A, B),
        (ONE, B, A),
    ]


def test_a_bundle_that_two_brokers_name_when_the_log_begins_was_not_moved() -> None:
    both = [has(A, 0, ONE), has(B, 0, ONE), sweep(1, A, B)]
    assert moves(*both, has(A, 10, ONE), has(B, 10), sweep(11, A, B)) == []
    assert moves(
        *both,
        has(A, 10, ONE),
        has(B, 10),
        sweep(11, A, B),
        has(A, 20),
        has(B, 20, ONE),
        sweep(21, A, B),
    ) == [(ONE, A, B)]


def test_a_broker_that_joins_gets_the_bundles_of_a_dead_one_and_then_loses_one() -> None:
    begin = [
        has(A, 0, ONE),
        sweep(1, A, B),
        has(C, 10, ONE),
        sweep(11, B, C),
        has(C, 20, ONE),
        sweep(21, B, C),
    ]
    assert moves(*begin) == []
    assert moves(*begin, has(C, 30), has(B, 30, ONE), sweep(31, B, C)) == [(ONE, C, B)]


def test_bundles_of_brokers_that_are_gone_or_silent_were_not_moved() -> None:
    assert moves(has(A, 0, ONE), sweep(1, A, B), has(B, 10, ONE), sweep(11, B)) == []
    assert moves(has(A, 0, ONE), sweep(1, A, B), has(B, 10, ONE), sweep(11, B, missing=[A])) == []


def test_new_bundles_and_system_bundles_were_not_moved() -> None:
    own = "pulsar/a:8080/0x00000000_0xffffffff"
    assert (
        moves(
            has(A, 0, ONE, own), sweep(1, A, B), has(A, 10), has(B, 10, TWO, own), sweep(11, A, B)
        )
        == []
    )


def test_extensible_brokers_are_noted_by_the_collector_and_an_older_census_is_good_enough() -> None:
    view = line("note", 5, note="cluster-view", broker=A, report={"brokers": [A, B], "leader": A})
    assert moves(note(A, 0, ONE), note(B, 0), view, note(A, 10), note(B, 11, ONE)) == [(ONE, A, B)]


def test_an_extensible_broker_that_withdrew_its_figures_because_of_the_move_is_alive() -> None:
    begin = [note(A, 0, ONE, TWO), note(B, 0), sweep(1, A, B, C)]
    withdrawn = sweep(12, C, missing=[A, B])
    assert moves(*begin, note(A, 10, TWO), note(B, 10, ONE), withdrawn) == [(ONE, A, B)]
    assert moves(*begin, note(A, 5, TWO), sweep(6, A, B, C), note(B, 10, ONE), withdrawn) == [
        (ONE, A, B)
    ], "nobody had it for a while"
    assert moves(*begin, note(B, 10, ONE), withdrawn, note(A, 13, TWO), withdrawn) == [
        (ONE, A, B)
    ], "A was asked a moment before"
    assert moves(*begin, note(B, 10, ONE), withdrawn, sweep(22, B, C)) == [], "A is gone"


def test_what_an_executor_moved_is_not_pulsars() -> None:
    watch = OwnershipWatch()
    report = {
        "v": 1,
        "command_id": "x",
        "cluster": "c",
        "bundle": ONE,
        "status": "applied",
        "reason": None,
    }
    outcome = line(
        "outcome",
        5,
        report={**report, "owner_before": A, "owner_after": B, "took_ms": 5, "ts": T0 + 5_000},
    )
    lines = [has(A, 0, ONE), sweep(1, A, B), outcome, has(A, 10), has(B, 10, ONE), sweep(11, A, B)]
    assert [moved for one in lines for moved in watch.feed(one)] == []
    assert watch.applied == 1


def test_notes_that_nobody_understands_say_nothing() -> None:
    assert (
        moves(
            line("note", 1, note="owned-bundles", broker=A, report=5),
            line("note", 2, note="other", broker=A, report={}),
        )
        == []
    )


def moved(name: str, seconds: float, source: str = A, destination: str = B) -> Moved:
    return Moved("c", name, source, destination, T0 + int(seconds * 1000))


def wanted(name: str, seconds: float, source: str = A, destination: str | None = B) -> Command:
    return command(name, source, destination, issued_at_ms=T0 + int(seconds * 1000))


def agreement(theirs: list[Moved], ours: list[Command]) -> Agreement:
    return compare(theirs, DecisionLog((), tuple(ours)), 600_000, bundles={"c": 100})


def test_the_same_bundle_within_the_time_is_both_and_the_lag_is_told() -> None:
    found = agreement(
        [moved(ONE, 100), moved(TWO, 100, C)], [wanted(ONE, 130, destination=C), wanted(THREE, 130)]
    )
    assert {pair.bundle: pair.verdict for pair in found.pairs} == {
        ONE: "both",
        TWO: "only Pulsar",
        THREE: "only ours",
    }
    (both,) = [pair for pair in found.pairs if pair.verdict == "both"]
    assert (both.lag_ms, both.same_destination) == (30_000, False)
    assert found.by_bundle == pytest.approx(1 / 3)
    assert found.by_broker == pytest.approx(1 / 2), "both took from a, only Pulsar from c"
    told = (
        "1 by both, 1 only by Pulsar, 1 only by ours; agreement 0.49 (1 = the same moves, 0 = no "
        "more than chance); ours decided 30 s after"
    )
    assert told in sentence(found)


def test_too_far_apart_are_two() -> None:
    assert [pair.verdict for pair in agreement([moved(ONE, 0)], [wanted(ONE, 601)]).pairs] == [
        "only Pulsar",
        "only ours",
    ]


def test_a_wish_that_nobody_carries_out_is_repeated_and_counts_once() -> None:
    found = agreement(
        [], [wanted(ONE, 0), wanted(ONE, 500), wanted(ONE, 1_000), wanted(ONE, 2_000)]
    )
    assert [pair.ts for pair in found.pairs] == [T0, T0 + 2_000_000]


def test_each_move_takes_its_nearest_wish() -> None:
    found = agreement(
        [moved(ONE, 0), moved(ONE, 2_000, B, A)], [wanted(ONE, 2_010, B, A), wanted(ONE, -10)]
    )
    assert [pair.lag_ms for pair in found.pairs] == [-10_000, 10_000]


def test_a_wish_to_take_a_bundle_from_where_a_move_brought_it_is_another_one() -> None:
    found = agreement([moved(ONE, 0, C, A), moved(ONE, 20, A, B)], [wanted(ONE, 5)])
    assert [(pair.verdict, pair.same_destination) for pair in found.pairs] == [
        ("only Pulsar", None),
        ("both", True),
    ]
    assert [pair.verdict for pair in agreement([moved(ONE, 0, C, A)], [wanted(ONE, 5)]).pairs] == [
        "only Pulsar",
        "only ours",
    ]


def test_nobody_moved_anything() -> None:
    found = agreement([], [])
    assert (found.by_bundle, found.by_broker, found.lag_ms) == (None, None, None)
    assert sentence(found) == "Neither Pulsar's shedder nor ours moved a bundle."


@pytest.mark.heavy
def test_the_two_unloads_of_a_recorded_cluster_are_found_and_our_rounds_have_their_reasons() -> (
    None
):
    words = (
        "shadow",
        RECORDINGS / "modular-broker-joins.jsonl.gz",
        "--set",
        "shedding.strategy=avg",
    )
    told = rebalancer(*words, "--json")
    assert (told.json["a_person"], told.json["only_pulsar"], told.json["both"]) == (2, 0, 0)
    assert [one["bundle"] for one in told.json["bundles"] if one["pulsar"]] == [
        "load/uneven/0x64000000_0x68000000",
        "load/uneven/0x7c000000_0x80000000",
    ]
    assert all(one["why"].startswith("round ") for one in told.json["bundles"] if one["pulsar"])
    assert "2 by a person" in rebalancer(*words).words


@pytest.mark.heavy
def test_a_killed_broker_unloads_nothing() -> None:
    assert (
        rebalancer("shadow", RECORDINGS / "modular-broker-killed.jsonl.gz", "--json").json[
            "only_pulsar"
        ]
        == 0
    )


def test_where_nobody_reported_nobody_is_compared(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_bytes(b"hello\n")
    answer = rebalancer("shadow", tmp_path / "notes.jsonl")
    assert answer.code == 1
    assert "notes.jsonl contains no telemetry, so moves cannot be detected" in answer.err


def test_without_a_recording_the_topics_of_the_settings_are_read(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.write(
        "telemetry", [has(A, 0, ONE), sweep(1, A, B), has(A, 10), has(B, 10, ONE), sweep(11, A, B)]
    )
    control.write("rounds", [])
    control.send(wanted(ONE, 40))
    topics = [
        word
        for topic in ("telemetry", "commands", "rounds")
        for word in ("--set", f"topics.{topic}={control.uri(topic)}")
    ]
    told = json.loads(rebalancer("shadow", "--json", *topics).out)
    assert (told["both"], told["median_lag_ms"]) == (1, 30_000)
