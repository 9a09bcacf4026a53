"""SteadyShedder judges brokers whose bundles come and go all the time, too."""

from strategies.shedding.steady.load_samples import NO_SAMPLES, by_usage, continued
from strategies.shedding.steady.memory_format import LoadHistory, LoadSample

_MINUTE_MS = 60_000


def _history(*reports: tuple[float, int]) -> LoadHistory:
    """The history after a report a minute, each with traffic in MB/s and a number of bundles."""
    history = NO_SAMPLES
    for minute, (traffic, count) in enumerate(reports):
        sample = LoadSample(_MINUTE_MS * minute, traffic / 100, 1e6 * traffic, 1e3 * traffic)
        history = continued(history, sample, count, True, float(_MINUTE_MS))
    return history


_JITTER = [(45.0, 9), (55.0, 9), (45.0, 9), (55.0, 9)]


def test_a_changed_number_of_bundles_explains_no_usual_change_of_traffic() -> None:
    assert len(_history(*_JITTER, (45.0, 10)).samples) == 5


def test_bundles_that_bring_more_traffic_than_usual_begin_the_samples_again() -> None:
    assert _history(*_JITTER, (140.0, 20)).samples == []
    assert _history((50.0, 9), (50.0, 9), (50.0, 9), (58.0, 10)).samples == []


def test_a_broker_whose_samples_begin_again_and_again_is_judged_by_its_usage() -> None:
    changes = [(50.0, 9), (90.0, 10), (50.0, 9), (90.0, 10), (50.0, 9), (90.0, 10), (50.0, 9)]
    assert not by_usage(_history(*changes[:5]))
    starved = _history(*changes)
    assert by_usage(starved)
    assert [one.usage for one in starved.samples] == [0.5, 0.9, 0.5]


def test_a_broker_is_judged_by_samples_of_one_number_of_bundles_once_it_lasts() -> None:
    changes = [(50.0, 9), (90.0, 10)] * 4
    assert by_usage(_history(*changes, *[(90.0, 10)] * 2))
    calm = [*changes, *[(90.0, 10)] * 12]
    assert not by_usage(_history(*calm))
    assert _history(*calm, (150.0, 20)).samples == []


def test_the_first_new_sample_counts_where_the_number_of_bundles_stays_the_same() -> None:
    began = [(50.0, 9)] * 3

    assert [_history(*began, *[(90.0, 10)] * more).waited for more in (3, 4)] == [3.0, 0.0]
