"""Which gaps between brokers SteadyShedder acts on."""

from dataclasses import replace

import pytest

from strategies.cluster.model import BrokerLoad
from strategies.cluster.strategy_memory import NO_MEMORY
from strategies.fold.reason_code_meanings import meanings_of
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.steady.lasting_gaps import GapTest, LoadGap, widest_gap
from strategies.shedding.steady.load_samples import recorded
from strategies.shedding.steady.memory_format import Episode, LoadHistory, LoadSample
from strategies.shedding.steady.reason_texts import gap_text
from strategies.shedding.steady.settings import PROFILES
from tests.world.brokers import broker, bundles
from tests.world.steady import MINUTE_MS, history_of, played

MEANINGS = meanings_of(*SHEDDERS.values())


def served(*counts: int) -> list[BrokerLoad]:
    """Brokers with these numbers of equal bundles, of 5 points of usage and 4 MiB/s each."""
    return [
        broker(f"b{at}", 10 + 5.0 * count, 4.0 * count, bundles(*[4.0] * count, first=20 * at))
        for at, count in enumerate(counts)
    ]


def at_usages(*cpu: float) -> list[BrokerLoad]:
    """Brokers with these usages and equal traffic of ten bundles."""
    return [
        broker(f"b{at}", usage, 40.0, bundles(*[4.0] * 10, first=10 * at))
        for at, usage in enumerate(cpu)
    ]


class TestForeignMoves:
    def test_a_gap_of_ten_points_counts_only_after_one(self) -> None:
        assert not any(shedding.decisions for shedding in played(*[served(11, 10, 9)] * 15))
        followed = played(*[served(10, 10, 10)] * 5, *[served(11, 10, 9)] * 10)
        moves = [one for shedding in followed for one in shedding.decisions]
        assert [(one.code, one.source, one.destination) for one in moves] == [
            ("follow-up", "b0:1", "b2:1")
        ]

    @pytest.mark.parametrize(
        ("points", "began_at_ms", "counts"),
        [(7.0, 0, False), (8.1, 0, True), (6.3, MINUTE_MS, False), (7.0, MINUTE_MS, True)],
    )
    def test_seven_points_are_enough_and_eight_after_its_own(
        self, points: float, began_at_ms: int, counts: bool
    ) -> None:
        minutes = [MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS]
        full, empty = (
            history_of(LoadSample(at, usage / 100, 1e6, 1e3) for at in minutes)
            for usage in (30.0 + points, 30.0)
        )
        histories = {"b0:1": full, "b1:1": empty}
        episode = Episode(began_at_ms=began_at_ms, last_at_ms=0)
        gap, _ = widest_gap(
            histories, lambda _, one: one.usage, PROFILES["default"], episode, 3 * MINUTE_MS
        )
        assert (gap is not None) == counts


class TestJumps:
    @pytest.mark.parametrize(
        ("reported", "believed"),
        [
            ([50, 50, 50, 67, 89, 50], [50, 50, 50, 50, 89, 50]),  # the end of a spike at once
            ([89, 50, 50], [89, 50, 50]),
            ([50, 50, 50, 75, 75, 75], [50, 50, 50, 50, 75, 75]),  # a step the second time
        ],
    )
    def test_what_samples_show_of_usages_with_the_same_traffic(
        self, reported: list[int], believed: list[int]
    ) -> None:
        history: LoadHistory | None = None
        for minute, cpu in enumerate(reported):
            load = replace(broker("b1", cpu, 40.0), reported_at_ms=minute * MINUTE_MS)
            history = recorded(load, cpu / 100, history, minute * MINUTE_MS, MINUTE_MS)
        assert history is not None
        assert [round(100 * one.usage) for one in history.samples] == believed

    @pytest.mark.parametrize("spike", [(67.0, 89.0), (95.0, 60.0), (80.0, 95.0, 70.0)])
    def test_a_pause_that_falls_into_several_reports_moves_nothing(
        self, spike: tuple[float, ...]
    ) -> None:
        calm = [at_usages(50.0, 50.0, 50.0)] * 5
        rounds = played(*calm, *(at_usages(50.0, usage, 50.0) for usage in spike), *calm)
        assert rounds[-1].memory.brokers.get("b0:1", NO_MEMORY).history is not None
        assert not any(shedding.decisions for shedding in rounds)

    def test_a_broker_whose_newest_figures_are_doubted_sheds_nothing(self) -> None:
        rising = [at_usages(usage, 50.0) for usage in (75.0, 80.0, 95.0)]
        assert not played(*[at_usages(50.0, 50.0)] * 9, *rising)[-1].decisions

    def test_a_gap_that_traffic_explains_only_in_part_counts(self) -> None:
        busy = broker("b0", 66.0, 52.0, bundles(*[5.2] * 10))
        idle = broker("b1", 44.0, 40.0, bundles(*[4.0] * 10, first=10))
        moved = [bool(shedding.decisions) for shedding in played(*[[busy, idle]] * 4)]
        assert moved[:3] == [False, False, True]

    def test_a_round_names_a_broker_whose_jump_does_not_count_yet(self) -> None:
        calm = [broker(f"b{at}", 50.0, 50.0) for at in range(1, 5)]
        busy = [*calm[:2], broker("b3", 90.0, 50.0), broker("b4", 85.0, 50.0)]
        rounds = played(*[calm] * 4, busy, busy)
        (jumped,), (believed,) = ([skip.text for skip in one.skips] for one in rounds[-2:])
        assert "jump of usage on b3:1 and 1 other broker does not count yet" in jumped
        assert "jump" not in believed


def test_bundles_that_reports_do_not_list_are_neither_proof_nor_other_processes() -> None:
    """As with the extensible load manager: b1 serves ten bundles of 8 MiB/s and lists three."""
    cold = broker("b2", 10.0, 10.0, bundles(5.0, 5.0, first=20))
    listed = broker("b1", 80.0, 80.0, bundles(*[8.0] * 3), unknown=7)
    alone = broker("b1", 80.0, 80.0, bundles(*[8.0] * 3))

    some, all_ = (played(*[(hot, cold)] * 2)[-1] for hot in (listed, alone))

    codes = [{skip.code for skip in one.skips} for one in (some, all_)]
    assert ["load-without-bundles" in one for one in codes] == [False, True]
    proofs = [one.certify({move.bundle for move in one.decisions}) for one in (some, all_)]
    assert [proof is not None and proof.best_spread is None for proof in proofs] == [True, False]
    assert len(some.decisions) == len(all_.decisions) == 3


@pytest.mark.parametrize("others", [0, 2])
def test_a_gap_of_a_broker_whose_last_move_no_sample_shows_yet_waits_for_one(others: int) -> None:
    """It does not follow that bundles are too large."""
    cold = broker("b2", 10.0, 10.0, bundles(5.0, 5.0, first=20))
    hot, *calm = (
        broker(f"b{at}", 80.0, 80.0, bundles(*[8.0] * 10, first=100 + 20 * at))
        for at in (1, *range(3, 3 + others))
    )

    seen = (hot, cold, *calm)
    acting, waiting = played(seen, seen, (hot, replace(cold, settling=True), *calm))[1:]

    assert acting.decisions  # which limits refuse: no bundle rests in the next round
    assert not waiting.decisions
    first, *others_left = [skip for skip in waiting.skips if skip.subject != "bundle"]
    assert (first.code, first.subject) == ("waiting-for-moves", "cluster")
    assert "above b2:1" in first.text
    assert [(one.code, one.names) for one in others_left] == [("settling", ("b2:1",))]
    state = state_of(RoundFacts((), [one.broker for one in seen], {}, {}, waiting.skips, MEANINGS))
    assert state.code == "waiting"


def test_a_gap_says_how_much_of_it_traffic_explains() -> None:
    tests = (GapTest("wide-gap", 14.5, 3, explained=part) for part in (0.0, 0.4, 1.0))
    said = [gap_text(LoadGap(one, "b5", "b1", 18.44, one.explained > 0)) for one in tests]
    gap = "b5 is at least 18.4 points above b1 in each of the last 3 samples"
    assert said[0] == gap
    assert said[1] == f"{gap}, and traffic explains at least 40 % of that"
    assert said[2] == f"{gap}, and in each by what traffic explains"
