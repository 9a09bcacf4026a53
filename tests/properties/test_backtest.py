"""On any recording, with any settings: rounds that a back-test passes over are those that decide
nothing, and nothing else differs.
"""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from pulsar_rebalancer.lab.backtest.columnar_fold_skipping_rounds import ColumnarFold, Quiet
from pulsar_rebalancer.lab.backtest.run import BacktestJob, Loop, run_together
from pulsar_rebalancer.lab.simulation.timeline import Timeline
from pulsar_rebalancer.settings.merge_sources import load
from sinks.recordings.columnar_reading import Block, read_blocks
from sinks.wire.record_encoding import encode_command, encode_round
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, Rejection, Round, Skip
from strategies.fold.engine import EngineSettings
from strategies.fold.reason_code_meanings import meanings_of
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.shedding.registry import SHEDDERS
from tests.properties.costly import costly
from tests.properties.legal import seeds
from tests.properties.recordings import a_recording, any_engine
from tests.world.backtests import run

MEANINGS = meanings_of(*SHEDDERS.values())

STRATEGIES = ("avg", "threshold", "overload", "uniform", "transfer")
strategies, lengths = st.sampled_from(STRATEGIES), st.integers(3, 80)
rules = st.tuples(strategies, seeds)


@dataclass
class Folded:
    """What the engine said, rounds as bytes by their time; of rounds that were passed over, usage
    and skips; and the state.
    """

    commands: list[bytes] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    rounds: dict[int, Round] = field(default_factory=dict)
    passed: dict[int, tuple[dict[str, float], tuple[Skip, ...]]] = field(default_factory=dict)
    state: object = None


def fold(blocks: list[Block], settings: EngineSettings, *, leap: bool) -> Folded:
    loop, folded = ColumnarFold(settings, leap=leap), Folded()
    for happened in loop.fold(blocks):
        if isinstance(happened, Quiet):
            for number, ts in enumerate(happened.times_ms.tolist()):
                usage = dict(zip(happened.brokers, happened.usage[number].tolist(), strict=True))
                folded.passed[ts] = usage, happened.skips[number]
        else:
            folded.commands += [
                encode_command(event) for event in happened if isinstance(event, Command)
            ]
            folded.rejected += [event.text for event in happened if isinstance(event, Rejection)]
            folded.rounds |= {event.ts: event for event in happened if isinstance(event, Round)}
    folded.state = everything(loop.store("c"))
    return folded


def _is_even(skips: tuple[Skip, ...]) -> bool:
    return any(skip.subject == "cluster" and skip.code == "even" for skip in skips)


def everything(store: InMemoryStore) -> object:
    """But for what is only forgotten when the next round closes."""
    brokers = sorted(store.brokers(), key=lambda one: one.broker)
    state = store.get_cluster()
    kept = (
        state.clock,
        state.round,
        state.round_at_ms,
        state.sweep_at_ms,
        state.memory,
        state.live,
        state.reported,
        state.in_flight,
    )
    return (
        brokers,
        [store.get_table(one.broker) for one in brokers],
        kept,
        state.missing,
        state.policies,
        state.joined,
    )


@pytest.mark.lab
@costly
@given(strategies, seeds, seeds, lengths, st.integers(1, 400))
def test_what_is_passed_over_decides_nothing_and_changes_nothing_else(
    strategy: str, seed: int, other: int, passes: int, cut: int
) -> None:
    settings = any_engine(strategy, other)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        a_recording(path, seed, passes)
        (block,) = read_blocks(path)
        blocks = [
            part
            for part in (
                block.between(0, min(cut, len(block))),
                block.between(min(cut, len(block)), len(block)),
            )
            if len(part)
        ]
        leaping, step_by_step = (
            fold(blocks, settings, leap=True),
            fold([block], settings, leap=False),
        )
    assert not step_by_step.passed
    assert leaping.commands == step_by_step.commands
    assert leaping.rejected == step_by_step.rejected
    assert leaping.rounds.keys() | leaping.passed.keys() == step_by_step.rounds.keys()
    assert not leaping.rounds.keys() & leaping.passed.keys()
    for ts, record in step_by_step.rounds.items():
        if ts in leaping.rounds:
            assert encode_round(leaping.rounds[ts]) == encode_round(record)
        else:
            usage, skips = leaping.passed[ts]
            assert record.usage == usage
            assert not record.commands
            assert _is_even(skips) == _is_even(record.skips) or strategy != "uniform"
            # The screens of the other strategies name no skips.
            if strategy in ("uniform", "transfer"):
                assert record.state == state_of(
                    RoundFacts((), record.brokers, {}, usage, skips, MEANINGS)
                )
    assert leaping.state == step_by_step.state


@pytest.mark.lab
@costly
@given(strategies, st.sampled_from(("closed", "closed", "open")), seeds, seeds, lengths)
def test_either_loop_has_the_same_timeline_with_every_round_asked(
    strategy: str, loop: Loop, seed: int, other: int, passes: int
) -> None:
    settings = replace(
        load(flags=[f"shedding.strategy={strategy}"]), engine=any_engine(strategy, other)
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        a_recording(path, seed, passes)
        leaping, step_by_step = (
            run(BacktestJob(path, "a", settings, loop), leap=leap) for leap in (True, False)
        )
    assert step_by_step.passed_over == 0
    assert [told(line) for line in leaping.timelines] == [
        told(line) for line in step_by_step.timelines
    ]


@pytest.mark.lab
@costly
# A move is told in a pass of which this block of the file has no report.
@example(
    pair=(("transfer", 502), ("overload", 1_843_399_207)),
    loop="closed",
    seed=644,
    passes=49,
    group=11,
)
@given(
    st.tuples(rules, rules), st.sampled_from(("closed", "open")), seeds, lengths, st.integers(5, 60)
)
def test_runs_that_read_the_file_together_are_what_each_is_alone(
    pair: tuple[tuple[str, int], ...], loop: Loop, seed: int, passes: int, group: int
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        a_recording(path, seed, passes)
        parquet.write_table(parquet.read_table(path), path, row_group_size=group)
        jobs = [
            BacktestJob(path, one, replace(load(), engine=any_engine(one, other)), loop)
            for one, other in pair
        ]
        together, alone = list(run_together(jobs)), [run(job) for job in jobs]
    for one, another in zip(together, alone, strict=True):
        assert one.passed_over == another.passed_over
        assert [told(line) for line in one.timelines] == [told(line) for line in another.timelines]


def told(line: Timeline) -> list[object]:
    """Every field, arrays as bytes."""
    values = [getattr(line, one.name) for one in fields(line)]
    return [value.tobytes() if isinstance(value, np.ndarray) else repr(value) for value in values]
