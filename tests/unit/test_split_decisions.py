"""When bundles are split: limits, counters, and the defects that fixed mode does not have."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from strategies.averages.bundle_averages import first_history
from strategies.bundles import BundleLoads
from strategies.cluster.model import BrokerLoad, Figures
from strategies.settings import Mode
from strategies.splitting.bundle_limits import (
    Sizes,
    SplitSettings,
    bandwidth_limit,
    excess,
    java_bandwidth_limit,
)
from strategies.splitting.due import SPLITTERS
from strategies.splitting.when_extensible import BrokerContext
from strategies.splitting.when_modular import Splits, java_modular_splits, modular_splits
from tests.world.brokers import MIB, ns
from tests.world.splits import broker, stats

#: Topics, sessions, messages/s and bytes/s of a bundle exactly at every default limit.
AT_LIMIT = (1000, 1000, 30_000.0, 100.0 * MIB)
COLD = (10, 10, 10.0, 10.0)
TOPICS = (1001, 10, 10.0, 10.0)
BOTH: list[Mode] = ["parity", "fixed"]
Bundles = Mapping[str, tuple[int, int, float, float]]


def split(
    bundles: Bundles,
    settings: SplitSettings = SplitSettings(),
    mode: Mode = "parity",
    existing: int = 4,
) -> Splits:
    return SPLITTERS[mode].modular([broker("b1:1", bundles)], lambda _: existing, settings)


def names(found: Splits) -> list[str]:
    return [decision.bundle for decision in found.decisions]


def look(
    bundles: Bundles,
    hits: Mapping[str, int],
    mode: Mode = "parity",
    *,
    settings: SplitSettings = SplitSettings(),
    splitting: Collection[str] = (),
    cut: Sequence[int] = (5,),
    elsewhere: Collection[str] = (),
) -> Splits:
    around = BrokerContext(
        "b1:1", lambda _: 4, lambda _: cut, lambda bundle: bundle not in elsewhere, splitting
    )
    return SPLITTERS[mode].extensible(stats(bundles), hits, around, settings)


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        (AT_LIMIT, None),
        ((1001, 1000, 30_000.0, 100.0 * MIB), "topics"),
        ((1000, 1001, 30_000.0, 100.0 * MIB), "sessions"),
        ((1000, 1000, 30_001.0, 100.0 * MIB), "msg-rate"),
        ((1000, 1000, 30_000.0, 100.0 * MIB + 1), "bandwidth"),
        ((1, 5000, 90_000.0, 900.0 * MIB), None),
    ],
)
def test_all_limits_are_strict(
    bundle: tuple[int, int, float, float], reason: str | None, mode: Mode
) -> None:
    found = split({ns(0): bundle}, mode=mode).decisions
    assert [decision.code for decision in found] == ([] if reason is None else [reason])
    assert all(decision.source == "b1:1" and decision.destination is None for decision in found)


def test_only_as_many_as_the_namespace_may_have_and_the_hottest_first_in_fixed_mode() -> None:
    bundles = {ns(0): TOPICS, ns(1): (5000, 10, 1.0, 1.0), ns(2): (2, 2, 60_000.0, 1.0)}
    found = split(bundles, mode="fixed", existing=126)
    assert names(found) == [ns(1), ns(2)]
    assert [skip.code for skip in found.skips] == ["namespace-full"]
    assert split(bundles, existing=128).decisions == ()


def test_a_bundle_that_two_brokers_report_is_split_once() -> None:
    brokers = [broker("b1:1", {ns(0): TOPICS}), broker("b2:1", {ns(0): TOPICS})]
    found = modular_splits(brokers, lambda _: 126, SplitSettings())
    assert [(decision.bundle, decision.source) for decision in found.decisions] == [(ns(0), "b1:1")]


@pytest.mark.parametrize(
    ("mib", "limit"), [(2047, 2047 * MIB), (2048, -(2**31)), (4096, 0), (5000, 947_912_704)]
)
def test_the_bandwidth_limit_overflows_in_parity_mode(mib: int, limit: int) -> None:
    settings = SplitSettings(max_bandwidth_mib=mib)
    assert java_bandwidth_limit(settings) == limit
    assert bandwidth_limit(settings) == mib * MIB
    assert bool(split({ns(0): COLD}, settings).decisions) == (limit < 20)
    assert split({ns(0): COLD}, settings, "fixed").decisions == ()


def test_what_cannot_be_split_is_not_planned_in_fixed_mode() -> None:
    whole = ("t/ns/0x00000005_0x00000006", "pulsar/b1:1/0x00000000_0xffffffff")
    found = split(dict.fromkeys((*whole, ns(0)), TOPICS), mode="fixed", existing=127)
    assert names(found) == [ns(0)]
    assert sorted(skip.code for skip in found.skips) == ["not-divisible", "system-bundle"]


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("cut", [(), (5, 6)])
def test_anything_but_one_boundary_is_a_failure(cut: Sequence[int], mode: Mode) -> None:
    found = look({ns(0): TOPICS}, {ns(0): 3}, mode, cut=cut)
    assert (found.decisions, found.failed, dict(found.hits)) == ((), (ns(0),), {ns(0): 4})
    assert [skip.code for skip in found.skips] == ["no-boundary"]


def test_a_namespace_that_begins_alike_blocks_in_parity_mode_only() -> None:
    other = ns(0, "t/ns2")
    assert names(look({ns(0): TOPICS}, {ns(0): 3}, "parity", splitting=[other])) == []
    assert names(look({ns(0): TOPICS}, {ns(0): 3}, "fixed", splitting=[other])) == [ns(0)]


@pytest.mark.parametrize("mode", BOTH)
def test_a_bundle_that_is_being_split_waits(mode: Mode) -> None:
    found = look({ns(0): TOPICS}, {ns(0): 3}, mode, splitting=["t/ns/0x00000000_0x08000000"])
    assert (found.decisions, dict(found.hits)) == ((), {ns(0): 4})


def test_hits_of_a_bundle_that_is_elsewhere_stay_in_parity_mode_only() -> None:
    assert look({ns(0): TOPICS}, {ns(0): 3}, "parity", elsewhere=[ns(0)]).hits == {ns(0): 3}
    assert look({ns(0): TOPICS}, {ns(0): 3}, "fixed", elsewhere=[ns(0)]).hits == {}
    assert look({}, {ns(0): 3}, "parity").hits == {}


def test_in_fixed_mode_all_are_counted_before_the_number_of_splits_is_reached() -> None:
    bundles = {ns(k): (2000 + k, 1, 1.0, 1.0) for k in range(4)}
    settings, hits = SplitSettings(max_splits=1), {ns(k): 3 for k in range(4)}
    ours = look(bundles, hits, "fixed", settings=settings)
    assert names(ours) == [ns(3)]
    assert sorted(ours.hits.values()) == [4, 4, 4]
    assert [skip.code for skip in ours.skips] == ["enough-splits"] * 3


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize(
    "bundle",
    [AT_LIMIT, COLD, TOPICS, (2, 1001, 1.0, 1.0), (2, 2, 30_001.0, 1.0), (2, 2, 1.0, 101.0 * MIB)],
)
def test_a_table_is_opened_only_where_its_summary_is_above_a_limit(
    bundle: tuple[int, int, float, float], mode: Mode
) -> None:
    opened = list[str]()
    table = first_history(stats({ns(0): COLD, ns(1): bundle}), 1)

    def load() -> BundleLoads:
        opened.append("b1:1")
        return table.loads()

    known = BrokerLoad("b1:1", Figures(), load, summary=table.summary())
    found = SPLITTERS[mode].modular([known], lambda _: 4, SplitSettings())
    assert names(found) == names(split({ns(0): COLD, ns(1): bundle}, mode=mode))
    assert bool(opened) == bool(found.decisions)


def test_limits_that_overflow_open_every_table_in_parity_mode() -> None:
    table = first_history(stats({ns(0): COLD}), 1)
    known = BrokerLoad("b1:1", Figures(), table.loads, summary=table.summary())
    found = java_modular_splits([known], lambda _: 4, SplitSettings(max_bandwidth_mib=2048))
    assert names(found) == [ns(0)]


@pytest.mark.parametrize("column", range(4))
def test_how_far_above_its_limits_a_bundle_is_counts_by_the_one_it_exceeds_most(
    column: int,
) -> None:
    """Each column is five times its own limit."""
    settings = SplitSettings(max_topics=10, max_sessions=10, max_msg_rate=10, max_bandwidth_mib=1)
    figures = [20, 20, 20.0, 2.0 * MIB]
    figures[column] *= 2.5
    sizes = Sizes(*(np.array([figure]) for figure in figures))
    assert excess(sizes, settings).tolist() == [5.0]
    unlimited = replace(settings, max_sessions=0)
    assert excess(sizes, unlimited).tolist() == ([2.0] if column == 1 else [5.0])
