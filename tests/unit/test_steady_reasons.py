"""What SteadyShedder says of gaps, and where reports show less than the whole cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strategies.cluster.memory import Memory
from strategies.cluster.model import BrokerLoad
from strategies.cluster.round_state import RoundFacts, state_of
from strategies.fold.meanings import meanings_of
from strategies.shedding.contract import Shedding
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.steady.fixed import SteadyShedder
from strategies.shedding.steady.gaps import LoadGap
from strategies.shedding.steady.reasons import gap_text
from strategies.shedding.steady.settings import SteadySettings
from tests.world.brokers import WEIGHTS, broker, bundles, view

MEANINGS = meanings_of(*SHEDDERS.values())


def played(*minutes: tuple[BrokerLoad, ...]) -> list[Shedding]:
    """One round a minute with these brokers."""
    rule, memory, rounds = SteadyShedder(SteadySettings(), WEIGHTS), Memory(), list[Shedding]()
    for minute, brokers in enumerate(minutes):
        now_ms = 60_000 * minute
        seen = (replace(one, reported_at_ms=now_ms) for one in brokers)
        rounds.append(rule.shed(replace(view(*seen), now_ms=now_ms), memory))
        memory = rounds[-1].memory
    return rounds


def test_bundles_that_reports_do_not_list_are_neither_proof_nor_other_processes() -> None:
    """As with the extensible load manager: b1 serves ten bundles of 8 MiB/s and lists three."""
    cold = broker("b2", 10.0, 10.0, bundles(5.0, 5.0, first=20))
    listed = broker("b1", 80.0, 80.0, bundles(*[8.0] * 3), unknown=7)
    alone = broker("b1", 80.0, 80.0, bundles(*[8.0] * 3))

    some, all_ = (played(*[(hot, cold)] * 2)[-1] for hot in (listed, alone))

    codes = [{skip.code for skip in one.skips} for one in (some, all_)]
    assert "load-without-bundles" not in codes[0]
    assert "load-without-bundles" in codes[1]
    proofs = [one.certify({move.bundle for move in one.decisions}) for one in (some, all_)]
    assert [proof is not None and proof.best_spread is None for proof in proofs] == [True, False]
    assert len(some.decisions) == len(all_.decisions) == 3


def test_a_round_names_a_broker_whose_jump_does_not_count_yet() -> None:
    calm = tuple(broker(f"b{at}", 50.0, 50.0) for at in range(1, 5))
    busy = (*calm[:2], broker("b3", 90.0, 50.0), broker("b4", 85.0, 50.0))

    rounds = played(*[calm] * 4, busy, busy)

    (jumped,), (believed,) = ([skip.text for skip in one.skips] for one in rounds[-2:])
    assert jumped.endswith(
        "; the jump of usage on b3:1 and 1 other broker does not count yet: traffic stood still"
    )
    assert "jump" not in believed


@pytest.mark.parametrize("others", [0, 2])
def test_a_gap_of_a_broker_whose_last_move_no_sample_shows_yet_waits_for_one(others: int) -> None:
    """With one broker left no plan was tried, with three none of them can give the cold one
    anything: it does not follow that bundles are too large.
    """
    hot, cold = (
        broker("b1", 80.0, 80.0, bundles(*[8.0] * 10)),
        broker("b2", 10.0, 10.0, bundles(5.0, 5.0, first=20)),
    )
    calm = [
        broker(f"b{at}", 80.0, 80.0, bundles(*[8.0] * 10, first=100 + 20 * at))
        for at in range(3, 3 + others)
    ]

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


@pytest.mark.parametrize(
    ("explained", "how"),
    [
        (0.0, ""),
        (0.4, ", and traffic explains at least 40 % of that"),
        (1.0, ", and in each by what traffic explains"),
    ],
)
def test_a_gap_says_how_much_of_it_traffic_explains(explained: float, how: str) -> None:
    gap = LoadGap("wide-gap", "b5", "b1", 18.44, 14.5, samples=3, explained=explained)

    text = gap_text(gap)

    assert text == f"b5 is at least 18.4 points above b1 in each of the last 3 samples{how}"
