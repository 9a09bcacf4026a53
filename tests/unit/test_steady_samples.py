"""The windows of SteadyShedder count report periods, however reports come."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from strategies.cluster.strategy_memory import Memory
from strategies.shedding.steady.load_samples import NO_SAMPLES, continued, recorded
from strategies.shedding.steady.memory_format import LoadHistory, LoadSample
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder
from tests.world.brokers import WEIGHTS, broker, bundles, view
from tests.world.steady import LoadLevel, history_of, levels_of

#: Period of samples, in seconds.
PERIOD_S = 60


def followed(samples: Iterable[LoadSample], history: LoadHistory = NO_SAMPLES) -> LoadHistory:
    """The history after these reports of a broker with five bundles."""
    for sample in samples:
        history = continued(history, sample, 5, True, 1000.0 * PERIOD_S)
    return history


def sampled(*reports: tuple[int, float]) -> LoadHistory:
    """The history after reports at these seconds, each with its usage in percent."""
    return followed(LoadSample(1000 * at, usage / 100, 1e6, 1e3) for at, usage in reports)


def levels(*loads: tuple[int, float]) -> list[float]:
    """Throughputs (MB/s) of the levels after reports at these minutes with these throughputs."""
    history = followed(LoadSample(60_000 * at, 0.5, 1e6 * load, 1e3) for at, load in loads)
    return [one.throughput / 1e6 for one in levels_of(history)]


def shown(history: LoadHistory) -> list[tuple[int, float]]:
    return [(one.at_ms // 1000, round(100 * one.usage, 6)) for one in history.samples]


@pytest.mark.parametrize(
    "bunched",
    [
        [(80, 44.0), (100, 50.0), (120, 56.0)],
        [(115, 50.0), (118, 45.0), (120, 57.5)],
        [(90, 45.0), (90, 99.0), (120, 55.0)],
    ],
)
def test_the_reports_of_a_period_are_one_sample_weighted_by_time(
    bunched: list[tuple[int, float]],
) -> None:
    calm = sampled((0, 50.0), (60, 50.0), (120, 50.0), (180, 52.0))
    assert sampled((0, 50.0), (60, 50.0), *bunched, (180, 52.0)).samples == calm.samples
    assert shown(calm) == [(0, 50.0), (60, 50.0), (120, 50.0), (180, 52.0)]


@pytest.mark.parametrize(
    "times",
    [
        [60, 62, 64, 120, 180, 240],
        [60, 70, 75, 80, 130, 131, 190, 250],
        [60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71],
        list(range(60, 400, 7)),
    ],
)
def test_however_reports_come_no_usage_is_lost_or_counted_twice(times: list[int]) -> None:
    """The usage added up over time is the same; no two samples are closer than most of a period."""
    reports = [(at, 40.0 + at % 9) for at in times]
    samples = shown(sampled((0, 40.0), *reports))
    kept, given = (
        sum(usage * (at - before) for (before, _), (at, usage) in pairwise(some))
        for some in (samples, [(0, 0.0), *reports])
    )
    assert kept == pytest.approx(given, abs=1e-3)
    at_s = [at for at, _ in samples]
    apart = [later - before for before, later in zip(at_s[:-2], at_s[2:], strict=True)]
    assert all(one > 1.25 * PERIOD_S for one in apart)


def test_a_report_soon_after_the_first_one_is_no_second_sample() -> None:
    assert shown(sampled((0, 50.0), (29, 60.0))) == [(0, 55.0)]
    assert shown(sampled((0, 50.0), (30, 60.0))) == [(0, 50.0), (30, 60.0)]


def test_a_late_report_is_a_sample_as_any_other() -> None:
    reports = [(0, 50.0), (60, 52.0), (135, 54.0), (180, 56.0), (240, 58.0)]
    assert shown(sampled(*reports)) == reports


def test_a_level_is_forgotten_eight_hours_after_its_last_sample_but_not_the_newest_one() -> None:
    assert levels((0, 10.0), (10, 12.0), (480, 14.0)) == [10.0, 12.0, 14.0]
    assert levels((0, 10.0), (10, 12.0), (481, 14.0)) == [12.0, 14.0]
    assert levels((0, 10.0), (1, 10.0), (481, 12.0)) == [10.0, 12.0]
    assert levels((0, 10.0), (1000, 10.1)) == [10.1]
    assert levels((0, 10.0), (1000, 12.0)) == [10.0, 12.0]


@pytest.mark.parametrize(("silence_s", "kept"), [(1200, 20), (1201, 1)])
def test_after_a_silence_as_long_as_the_window_samples_begin_again(
    silence_s: int, kept: int
) -> None:
    """What brokers showed before says nothing of the present, whatever the collector missed."""
    before = sampled(*((60 * minute, 90.0) for minute in range(20)))
    load = LoadSample(1000 * (60 * 19 + silence_s), 0.3, 3e5, 3e2)
    after = followed([load], before)
    assert len(after.samples) == kept
    assert after.samples[-1] == load
    assert [one.throughput for one in levels_of(after)][:1] == [1e6]


def test_the_samples_of_a_broker_that_reports_rarely_stay() -> None:
    hourly = sampled((0, 90.0), (3600, 80.0), (7200, 70.0))
    assert shown(hourly) == [(0, 90.0), (3600, 80.0), (7200, 70.0)]


def test_levels_are_forgotten_while_traffic_steps_with_every_sample_too() -> None:
    steps = [(minute, 10.0 if minute % 2 else 20.0) for minute in range(2, 601)]
    assert levels((0, 10.0), (1, 12.0), *steps[:478]) == [10.0, 12.0]
    assert levels((0, 10.0), (1, 12.0), *steps) == [12.0]


def test_levels_of_a_broker_are_forgotten_while_its_figures_are_estimates() -> None:
    history = history_of(
        [LoadSample(60_000, 0.5, 1e6, 0.0)],
        [LoadLevel(1e6 * at, 0.0, 0.5, 1.0, 60_000.0 * at) for at in (1, 2)],
    )
    load = replace(broker("b", 50.0, 20.0), reported_at_ms=60_000 * 482, estimated=True, fresh=True)
    after = recorded(load, 0.5, history, 60_000 * 482, 60_000.0)
    assert [one.throughput for one in levels_of(after)] == [2e6]


def test_the_means_of_a_level_begin_again_every_four_hours() -> None:
    assert levels((230, 10.0), (239, 10.2)) == [10.1]
    assert levels((230, 10.0), (239, 10.2), (240, 10.4)) == [10.4]
    assert levels((230, 10.0), (239, 10.2), (240, 10.4), (250, 10.6)) == [10.5]


def first_moves(period_s: int, settings: SteadySettings, *, every_s: int = 60, asked: bool) -> int:
    """The second of the first moves against a gap of 70 points, if brokers measure every `period_s`
    seconds, and a round ends every `every_s`. `asked`: the collector asks brokers before each
    round, and they repeat their last figures.
    """
    rule, memory = SteadyShedder(settings, WEIGHTS), Memory()
    for at_s in range(0, 1200, every_s):
        told_ms, fresh = (
            1000 * (at_s if asked else at_s // period_s * period_s),
            not at_s % period_s,
        )
        brokers = (
            broker(f"b{at}", usage, usage, bundles(*[usage / 10] * 10, first=10 * at), fresh=fresh)
            for at, usage in enumerate((80.0, 10.0))
        )
        seen = view(*(replace(one, reported_at_ms=told_ms) for one in brokers))
        done = rule.shed(replace(seen, now_ms=1000 * at_s), memory)
        memory = done.memory
        if done.decisions:
            return at_s
    raise AssertionError("no moves in 20 minutes")


@pytest.mark.parametrize("period_s", [1, 5, 10, 20, 29, 30])
def test_brokers_that_report_often_are_judged_after_half_a_sample_at_the_earliest(
    period_s: int,
) -> None:
    moved_at_s = first_moves(period_s, SteadySettings(), every_s=period_s, asked=False)
    assert PERIOD_S / 2 <= moved_at_s <= PERIOD_S


@pytest.mark.parametrize("period_s", [60, 120, 300])
def test_brokers_that_report_rarely_are_judged_by_as_many_reports(period_s: int) -> None:
    """A huge gap counts in the second report, in whichever round that comes."""
    assert first_moves(period_s, SteadySettings(), asked=False) == period_s


@pytest.mark.parametrize("period_s", [120, 180])
def test_figures_that_brokers_repeat_are_one_sample_of_their_period(period_s: int) -> None:
    """So `sample_seconds` must be at least the brokers' period, which `doctor` checks."""
    right, short = SteadySettings(sample_seconds=period_s), SteadySettings()
    assert first_moves(period_s, right, asked=True) == period_s
    assert first_moves(period_s, short, asked=True) == 60
