"""Shadow mode tells apart what it can: moves by hand, bundles that go to and fro, a part of the
log, agreement beyond chance.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.lab.shadow.agreement import ComparedWindow, compare, window
from pulsar_rebalancer.lab.shadow.manual_moves import by_people, to_and_fro
from pulsar_rebalancer.lab.shadow.ownership import OwnershipWatch, TrafficWatch
from sinks.wire.record_decoding import decode_round
from strategies.cluster.model import Round
from tests.lab.test_shadow import A, B, C, agreement, has, moved, sweep, wanted
from tests.telemetry_lines import T0, bundle, line
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven

GRACE_MS = 1_800_000
ONE, TWO, THREE = bundle(1), bundle(2), bundle(3)


def a_round(usage: dict[str, float], seconds: float, tmp_path: Path) -> Round:
    rebalancer(
        "replay", recorded(tmp_path, uneven(rounds=1)), "--out", tmp_path / "out", *EAGER_WORDS
    )
    plain = decode_round((tmp_path / "out" / "rounds.jsonl").read_bytes().splitlines()[0])
    return replace(plain, usage=usage, brokers=tuple(usage), ts=T0 + int(seconds * 1000))


def carrying(rates: dict[str, float], seconds: float = 0) -> TrafficWatch:
    watch = OwnershipWatch()
    for number, (broker, rate) in enumerate(rates.items()):
        names = [bundle(index) for index in range(int(rate))]
        watch.feed(has(broker, seconds + number / 100, *names))
    return watch.traffic


class TestPeople:
    def test_a_bundle_that_is_moved_again_within_the_grace_period_was_moved_by_hand(self) -> None:
        moves = [moved(ONE, 0), moved(ONE, 600, B, C), moved(ONE, 3_000, C, A), moved(TWO, 600)]
        assert by_people(moves, (), GRACE_MS) == {
            moves[1]: "moved again after 600 s, within the shedder's grace period of 1800 s",
        }

    def test_no_shedder_takes_from_an_idle_broker_for_a_busier_one(self, tmp_path: Path) -> None:
        rounds = [a_round({A: 0.1, B: 0.9, C: 0.5}, 0, tmp_path)]
        up, down = moved(ONE, 60, A, B), moved(TWO, 60, B, A)
        assert by_people([up, down], rounds, GRACE_MS, carrying({A: 1, B: 9, C: 5})) == {
            up: f"left {A} at 10.0% for {B}, which was busier; the mean was 50.0%"
        }

    @pytest.mark.parametrize("rates", [{A: 9.0, B: 1.0, C: 5.0}, {A: 5.0, B: 5.0, C: 5.0}, {}])
    def test_a_shedder_that_goes_by_traffic_has_its_own_idea_of_busy(
        self, rates: dict[str, float], tmp_path: Path
    ) -> None:
        rounds = [a_round({A: 0.1, B: 0.9, C: 0.5}, 0, tmp_path)]
        assert by_people([moved(ONE, 60, A, B)], rounds, GRACE_MS, carrying(rates)) == {}

    def test_without_rounds_nothing_is_claimed(self) -> None:
        assert by_people([moved(ONE, 60, A, B)], (), GRACE_MS, carrying({A: 1, B: 9})) == {}

    def test_a_note_of_an_unload_is_believed(self) -> None:
        watch = OwnershipWatch()
        watch.feed(
            line("note", 50, note="event", broker=None, report={"event": "unload", "bundle": ONE})
        )
        one, other, later = moved(ONE, 60), moved(TWO, 60), moved(ONE, 10_000)
        assert list(by_people([one, other, later], (), GRACE_MS, watch.traffic)) == [one]


class TestToAndFro:
    def test_a_bundle_that_comes_back_is_named_with_its_path(self) -> None:
        others = [moved(TWO, 0), moved(TWO, 9, B, C)]
        (found,) = to_and_fro([moved(ONE, 0), moved(ONE, 60, B, A), moved(ONE, 120), *others])
        assert (found.bundle, found.moves, found.path) == (ONE, 3, (A, B, A, B))

    @pytest.mark.heavy
    def test_by_the_command(self, tmp_path: Path) -> None:
        back_and_forth = [
            step
            for at, (mine, theirs) in {0: ([ONE], []), 100: ([], [ONE]), 200: ([ONE], [])}.items()
            for step in (has(A, at, *mine), has(B, at + 1, *theirs), sweep(at + 2, A, B))
        ]
        log = recorded(tmp_path, back_and_forth)
        told = f"{ONE} moves back and forth: 2 moves, {A} → {B} → {A}"
        assert told in rebalancer("shadow", log).words
        assert rebalancer("shadow", log, "--json").json["to_and_fro"] == [
            {"cluster": "c", "bundle": ONE, "path": [A, B, A]}
        ]
        assert rebalancer("shadow", log, "--since", "99s", "--json").json["to_and_fro"] == []


class TestWindow:
    def test_before_the_newest_record_and_in_utc(self) -> None:
        assert window("2h", None, 10_000_000) == ComparedWindow(10_000_000 - 7_200_000, None)
        assert window("1970-01-01T00:01", "1970-01-01T01:02:00+01:00", 0) == ComparedWindow(
            60_000, 120_000
        )
        assert 5 in window(None, None, 0)
        assert 5 not in window("6s", "5s", 10_000)

    def test_moves_and_wishes_outside_are_left_out_but_pair_across_its_edge(self) -> None:
        moves = [moved(ONE, 100), moved(TWO, 5_000)]
        wishes = DecisionLog((), (wanted(ONE, 90), wanted(THREE, 9_000)))
        part = ComparedWindow(T0 + 95_000, T0 + 6_000_000)
        inside = compare(moves, wishes, 600_000, window=part)
        assert [(pair.bundle, pair.verdict) for pair in inside.pairs] == [
            (ONE, "both"),
            (TWO, "only Pulsar"),
        ]


class TestAgreement:
    """Beyond chance; of a hundred bundles, unless there are others."""

    @pytest.mark.parametrize(
        ("theirs", "ours", "at", "bundles", "found"),
        [
            ([ONE, TWO], [ONE, TWO], 0, 100, 1),
            ([ONE], [TWO], 0, 100, -0.01 / 0.99),
            ([ONE], [TWO], 700, 100, 0),
            ([ONE], [], 0, 100, 0),
            ([ONE, TWO], [TWO, THREE], 0, 10**9, 0.5),
            ([ONE], [ONE], 0, 1, None),
            ([], [], 0, 1, None),
        ],
        ids=[
            "the same",
            "none of the same",
            "too late",
            "none of ours",
            "half of the same among many bundles",
            "where every bundle moves",
            "nothing moves",
        ],
    )
    def test_of(
        self, theirs: list[str], ours: list[str], at: float, bundles: int, found: float | None
    ) -> None:
        moves, wishes = [moved(name, 0) for name in theirs], [wanted(name, at) for name in ours]
        told = agreement(moves, wishes, bundles).agreement
        assert told == (None if found is None else pytest.approx(found))

    def test_as_many_of_the_same_as_chance_has_is_nothing(self) -> None:
        """Ten of a hundred bundles each: one is the same by chance."""
        names = [bundle(index) for index in range(19)]
        found = agreement(
            [moved(one, 0) for one in names[:10]], [wanted(one, 0) for one in names[9:]]
        )
        assert (found.f1, found.by_chance, found.agreement) == pytest.approx((0.1, 0.1, 0))
