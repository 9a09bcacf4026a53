"""Shadow mode: moves are seen in ownership, and paired with what we wanted."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.lab.command_runs.shadow import sentence
from pulsar_rebalancer.lab.shadow.agreement import Agreement, compare
from pulsar_rebalancer.lab.shadow.ownership import Moved, OwnershipWatch
from strategies.cluster.model import Command
from tests import telemetry_lines
from tests.control_topic import Control, command
from tests.telemetry_lines import T0, bundle, line, load_report
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import recorded

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
A, B, C = "a:8080", "b:8080", "c:8080"
ONE, TWO, THREE = bundle(1), bundle(2), bundle(3)


def has(broker: str, seconds: float, *bundles: str) -> bytes:
    return load_report(broker, seconds, dict.fromkeys(bundles, 10.0))


def sweep(seconds: float, *alive: str, missing: Sequence[str] = ()) -> bytes:
    return telemetry_lines.sweep(seconds, *alive, missing=dict.fromkeys(missing, "silent"))


def note(broker: str, seconds: float, *bundles: str) -> bytes:
    report = {key: {"is_active": True} for key in bundles}
    return line("note", seconds, note="owned-bundles", broker=broker, report=report)


def moves(*lines: bytes) -> list[tuple[str, str, str]]:
    watch = OwnershipWatch()
    found = [moved for one in lines for moved in watch.feed(one)]
    return [(moved.bundle, moved.source, moved.destination) for moved in [*found, *watch.rest()]]


def both(first: int, *seconds: int) -> list[bytes]:
    """Passes in which A and B say that they have the bundle."""
    return [
        one
        for at in (first, *seconds)
        for one in (has(A, at, ONE), has(B, at, ONE), sweep(at + 1, A, B))
    ]


A_HAS_IT = [has(A, 0, ONE), has(B, 0), sweep(1, A, B)]
B_HAS_IT = [has(A, 20), has(B, 20, ONE), sweep(21, A, B)]
LATE = [*A_HAS_IT, *both(10, 20)]
DEAD = [has(A, 0, ONE), sweep(1, A, B), has(C, 10, ONE), sweep(11, B, C), has(C, 20, ONE)]
DEAD += [sweep(21, B, C)]
OWN = "pulsar/a:8080/0x00000000_0xffffffff"
VIEW = line("note", 5, note="cluster-view", broker=A, report={"brokers": [A, B], "leader": A})
NOTED = [note(A, 0, ONE, TWO), note(B, 0), sweep(1, A, B, C)]
WITHDRAWN = sweep(12, C, missing=[A, B])
TO_B, TO_A = (ONE, A, B), (ONE, B, A)
OWNERS: Mapping[str, tuple[Sequence[bytes], Sequence[tuple[str, str, str]]]] = {
    "another living broker has it now": (
        [has(A, 0, ONE, TWO), *A_HAS_IT[1:], has(A, 10, TWO), *B_HAS_IT[1:]],
        [TO_B],
    ),
    "nobody had it for a while": (
        [has(A, 0, ONE), sweep(1, A, B), has(A, 10), sweep(11, A, B), *B_HAS_IT[1:]],
        [TO_B],
    ),
    "who has not noticed yet does not get it back": (LATE, [TO_B]),
    "noticed, and back": (
        [*LATE, has(A, 30), has(B, 30, ONE), has(A, 40, ONE), has(B, 40), sweep(41, A, B)],
        [TO_B, TO_A],
    ),
    "and back": ([*LATE, has(B, 30), has(A, 30, ONE), sweep(31, A, B)], [TO_B, TO_A]),
    "two name it when the log begins": (
        [*both(0), has(A, 10, ONE), has(B, 10), sweep(11, A, B)],
        [],
    ),
    "two name it when the log begins, then it moves": (
        [*both(0), has(A, 10, ONE), has(B, 10), sweep(11, A, B), *B_HAS_IT],
        [TO_B],
    ),
    "a broker that joins gets the bundles of a dead one": (DEAD, []),
    "and then it loses one": ([*DEAD, has(C, 30), has(B, 30, ONE), sweep(31, B, C)], [(ONE, C, B)]),
    "A is gone": ([has(A, 0, ONE), sweep(1, A, B), has(B, 10, ONE), sweep(11, B)], []),
    "A is silent": (
        [has(A, 0, ONE), sweep(1, A, B), has(B, 10, ONE), sweep(11, B, missing=[A])],
        [],
    ),
    "new bundles and system bundles": (
        [has(A, 0, ONE, OWN), sweep(1, A, B), has(A, 10), has(B, 10, TWO, OWN), B_HAS_IT[2]],
        [],
    ),
    "notes of the collector, and an older census": (
        [note(A, 0, ONE), note(B, 0), VIEW, note(A, 10), note(B, 11, ONE)],
        [TO_B],
    ),
    "an extensible broker that withdrew its figures is alive": (
        [*NOTED, note(A, 10, TWO), note(B, 10, ONE), WITHDRAWN],
        [TO_B],
    ),
    "withdrew its figures, nobody had it for a while": (
        [*NOTED, note(A, 5, TWO), sweep(6, A, B, C), note(B, 10, ONE), WITHDRAWN],
        [TO_B],
    ),
    "withdrew its figures, was asked a moment before": (
        [*NOTED, note(B, 10, ONE), WITHDRAWN, note(A, 13, TWO), WITHDRAWN],
        [TO_B],
    ),
    "withdrew, is gone": ([*NOTED, note(B, 10, ONE), WITHDRAWN, sweep(22, B, C)], []),
    "notes that nobody understands": (
        [
            line("note", 1, note="owned-bundles", broker=A, report=5),
            line("note", 2, note="other", broker=A, report={}),
        ],
        [],
    ),
}


@pytest.mark.parametrize(("lines", "found"), OWNERS.values(), ids=OWNERS)
def test_moves_are_changes_of_ownership_between_living_brokers(
    lines: Sequence[bytes], found: Sequence[tuple[str, str, str]]
) -> None:
    assert moves(*lines) == found


def test_what_an_executor_moved_is_not_pulsars() -> None:
    watch = OwnershipWatch()
    outcome = json.loads(telemetry_lines.outcome(5))
    outcome["report"] |= {"bundle": ONE, "owner_before": A, "owner_after": B, "ts": T0 + 5_000}
    lines = [has(A, 0, ONE), sweep(1, A, B), telemetry_lines.dumps(outcome), *B_HAS_IT]
    assert [moved for one in lines for moved in watch.feed(one)] == []
    assert watch.applied == 1


def moved(name: str, seconds: float, source: str = A, destination: str = B) -> Moved:
    return Moved("c", name, source, destination, T0 + int(seconds * 1000))


def wanted(name: str, seconds: float, source: str = A, destination: str | None = B) -> Command:
    return command(name, source, destination, issued_at_ms=T0 + int(seconds * 1000))


def agreement(theirs: Sequence[Moved], ours: Sequence[Command], bundles: int = 100) -> Agreement:
    return compare(theirs, DecisionLog((), tuple(ours)), 600_000, bundles={"c": bundles})


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
    found = agreement([moved(ONE, 0)], [wanted(ONE, 601)])
    assert [pair.verdict for pair in found.pairs] == ["only Pulsar", "only ours"]


def test_a_wish_that_nobody_carries_out_is_repeated_and_counts_once() -> None:
    found = agreement([], [wanted(ONE, seconds) for seconds in (0, 500, 1_000, 2_000)])
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
    found = agreement([moved(ONE, 0, C, A)], [wanted(ONE, 5)])
    assert [pair.verdict for pair in found.pairs] == ["only Pulsar", "only ours"]


def test_nobody_moved_anything() -> None:
    found = agreement([], [])
    assert (found.by_bundle, found.by_broker, found.lag_ms) == (None, None, None)
    assert sentence(found) == "Neither Pulsar's shedder nor ours moved a bundle."


@pytest.mark.heavy
def test_the_two_unloads_of_a_recorded_cluster_are_found_and_our_rounds_have_their_reasons() -> (
    None
):
    avg = ("--set", "shedding.strategy=avg")
    words = ("shadow", RECORDINGS / "modular-broker-joins.jsonl.gz", *avg)
    found = rebalancer(*words, "--json").json
    assert (found["a_person"], found["only_pulsar"], found["both"]) == (2, 0, 0)
    pulsars = [one for one in found["bundles"] if one["pulsar"]]
    assert [one["bundle"] for one in pulsars] == [
        "load/uneven/0x64000000_0x68000000",
        "load/uneven/0x7c000000_0x80000000",
    ]
    assert all(one["why"].startswith("round ") for one in pulsars)
    told = "0 only by Pulsar, 0 only by ours, 2 by a person, which are not compared."
    assert told in rebalancer(*words).words


@pytest.mark.heavy
def test_a_killed_broker_unloads_nothing() -> None:
    killed = RECORDINGS / "modular-broker-killed.jsonl.gz"
    assert rebalancer("shadow", killed, "--json").json["only_pulsar"] == 0


def test_where_nobody_reported_nobody_is_compared(tmp_path: Path) -> None:
    answer = rebalancer("shadow", recorded(tmp_path, [b"hello"], "notes.jsonl"))
    assert answer.code == 1
    assert "notes.jsonl contains no telemetry, so moves cannot be detected" in answer.err


def test_without_a_recording_the_topics_of_the_settings_are_read(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.write("telemetry", [*A_HAS_IT, has(A, 10), has(B, 10, ONE), sweep(11, A, B)])
    control.write("rounds", [])
    control.send(wanted(ONE, 40))
    topics = [
        word
        for topic in ("telemetry", "commands", "rounds")
        for word in ("--set", f"topics.{topic}={control.uri(topic)}")
    ]
    told = json.loads(rebalancer("shadow", "--json", *topics).out)
    assert (told["both"], told["median_lag_ms"]) == (1, 30_000)
