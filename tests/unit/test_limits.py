"""What an operator allows: times, namespaces and brokers by name, and how much may move."""

from datetime import UTC, datetime
from math import inf, nan

import pytest

from strategies.cluster.budget import HOUR_MS, Budget, Spent, entries_of_last_hour
from strategies.patterns_and_windows import is_open, matcher, of_namespaces, read_windows
from strategies.settings import LimitSettings

MIB = 1024 * 1024
NOW = 100 * HOUR_MS


def at(when: str) -> int:
    """Milliseconds of a time of August 2026, whose 3rd is a Monday: `3 22:30`."""
    time = datetime.strptime(f"2026-08-{when}", "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)


def opened(windows: str, when: str, offset: int = 0) -> bool:
    return is_open(read_windows(windows, "limits.windows"), at(when), offset)


class TestWindows:
    @pytest.mark.parametrize(
        ("windows", "inside", "outside"),
        [
            ("22:00-23:30", ["3 22:00", "9 23:29"], ["3 21:59", "3 23:30"]),
            ("22:00-06:00", ["3 22:00", "4 05:59"], ["3 06:00", "3 21:59"]),
            ("Mon 22:00-06:00", ["3 22:00", "4 05:59"], ["3 05:59", "4 22:00"]),
            ("Mon-Fri 09:00-17:00", ["3 09:00", "7 16:59"], ["8 09:00", "9 12:00"]),
            ("Sat-Mon 00:00-24:00", ["8 00:00", "9 23:59", "10 23:59"], ["7 23:59", "11 00:00"]),
            ("Sun 23:00-01:00", ["9 23:00", "10 00:59"], ["10 01:00", "9 00:30"]),
            ("01:00-02:00, Wed 12:00-13:00", ["3 01:30", "5 12:30"], ["3 12:30", "5 02:00"]),
            ("12:00-12:00", ["3 11:59", "3 12:00"], []),
        ],
    )
    def test_what_lies_inside(self, windows: str, inside: list[str], outside: list[str]) -> None:
        assert [when for when in (*inside, *outside) if opened(windows, when)] == inside

    def test_without_windows_all_times_are_open(self) -> None:
        assert opened("", "3 12:00")

    def test_the_clock_of_the_windows_may_be_another_one(self) -> None:
        assert opened("Tue 00:00-01:00", "3 22:30", offset=120)
        assert not opened("Tue 00:00-01:00", "3 22:30")
        assert opened("Sun 20:00-21:00", "3 01:30", offset=-300)


class TestNames:
    def test_patterns_are_of_whole_names_and_their_case_counts(self) -> None:
        named = matcher(" broker-1:8080 , spare-*:8080,")
        names = ("broker-1:8080", "spare-17:8080", "broker-1:80801", "BROKER-1:8080", "")
        assert [named(name) for name in names] == [True, True, False, False, False]

    def test_namespaces_are_those_of_bundles(self) -> None:
        named = of_namespaces("gold/*, t/ns")
        bundles = [f"{one}/0x0_0x1" for one in ("gold/eu", "gold/us", "t/ns", "t/ns2", "golden/eu")]
        assert [named(bundle) for bundle in bundles] == [True] * 3 + [False] * 2

    def test_a_list_as_pulsar_prints_it(self) -> None:
        printed, pattern = of_namespaces("[gold/a, t/ns]"), matcher("[ab]-1:80,[ab]-2:80")
        names = [f"{name}/0x0_0x1" for name in ("gold/a", "t/ns", "t/n")]
        assert [printed(name) for name in names] == [True, True, False]
        assert [pattern(name) for name in ("a-1:80", "b-2:80", "c-1:80")] == [True, True, False]

    def test_an_empty_list_names_nobody(self) -> None:
        assert not matcher("")("a:1")
        assert not of_namespaces(" , ")("t/ns/0x0_0x1")


def a_budget(*spent: Spent, **limits: float) -> Budget:
    return Budget(LimitSettings(**limits), spent, NOW)  # type: ignore[arg-type]  # the limits are those of LimitSettings


def moves(budget: Budget, *mib: float) -> list[str]:
    """One bundle after the other: `moves`, or why it stays."""
    answers = []
    for one in mib:
        refusal = budget.refuses([one * MIB])
        answers.append("moves" if refusal is None else refusal.text)
        if refusal is None:
            budget.spend([one * MIB])
    return answers


class TestBudget:
    def test_without_limits_everything_moves_and_is_counted(self) -> None:
        budget = a_budget()
        assert budget.spent is None
        assert moves(budget, 1, 2) == ["moves", "moves"]
        assert budget.spent == Spent(NOW, 2, 3 * MIB)

    def test_what_is_too_heavy_stays_and_lighter_bundles_may_follow(self) -> None:
        too_heavy = "would exceed limits.moved_mib_per_round = 10"
        answers = ["moves", too_heavy, "moves", "moves"]
        assert moves(a_budget(moved_mib_per_round=10.0), 6, 5, 4, 0) == answers

    def test_rounds_of_the_last_hour_count_and_one_exactly_an_hour_ago_does_not(self) -> None:
        spent = (Spent(NOW - HOUR_MS, 5, 50 * MIB), Spent(NOW - HOUR_MS + 1, 2, 8 * MIB))
        assert entries_of_last_hour(spent, NOW) == spent[1:]
        too_many = "would exceed limits.moves_per_hour = 3"
        too_heavy = "would exceed limits.moved_mib_per_hour = 10"
        assert moves(a_budget(*spent, moves_per_hour=3), 1, 1) == ["moves", too_many]
        assert moves(a_budget(*spent, moved_mib_per_hour=10.0), 3, 2) == [too_heavy, "moves"]

    def test_bundles_that_move_together_count_together(self) -> None:
        assert a_budget(moves_per_round=2).refuses([MIB, MIB, MIB]) is not None
        assert a_budget(moves_per_round=3).refuses([MIB, MIB, MIB]) is None

    @pytest.mark.parametrize("throughput", [nan, inf])
    def test_nobody_knows_how_much_a_bundle_without_a_figure_takes_along(
        self, throughput: float
    ) -> None:
        assert a_budget(moved_mib_per_round=1000.0).refuses([throughput]) is not None
        assert a_budget().refuses([throughput]) is None
