"""The heaviest bundles of a broker: who is among them, in which order, and who is left out."""

from collections.abc import Callable, Mapping
from math import inf, nan

import numpy as np
import pytest

from strategies.cluster.model import BundleStats
from strategies.filters.policies import PoliciesView, isolation_policy
from strategies.settings import Mode
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles, top_bundles
from tests.world.brokers import ns
from tests.world.placement import policy

BOTH: list[Mode] = ["parity", "fixed"]
Rule = Callable[[BundleStats, PoliciesView, TopSettings], tuple[int, ...] | TopFault]
TOP: Mapping[Mode, Rule] = {"fixed": top_bundles, "parity": java_top_bundles}


def bundles(**throughput: float) -> BundleStats:
    """Bundles of namespaces `t/<name>` with so many bytes/s inbound."""
    names = tuple(ns(0, f"t/{name}") for name in throughput)
    traffic = np.array([(0.0, 0.0, value, 0.0) for value in throughput.values()]).reshape(-1, 4)
    one = np.ones(len(names), dtype=np.int64)
    return BundleStats(names, traffic, one, one)


def top(
    stats: BundleStats, settings: TopSettings, mode: Mode, policies: PoliciesView = PoliciesView()
) -> list[str]:
    found = TOP[mode](stats, policies, settings)
    assert not isinstance(found, TopFault)
    return [stats.names[row].split("/")[1] for row in found]


@pytest.mark.parametrize("mode", BOTH)
def test_policies_and_exclusions(mode: Mode) -> None:
    seen = bundles(a=5e6, b=4e6, c=3e6, d=2e6)
    named_a = isolation_policy("p", policy("p", ["t/a"], [".*"]))
    policies = PoliciesView((named_a,), {"t/b": "group"})
    assert top(seen, TopSettings(excluded_namespaces="t/x, t/c"), mode, policies) == ["d"]
    assert top(seen, TopSettings(with_policies=True), mode, policies) == ["d", "c", "b", "a"]


def named(*namespaces: str) -> BundleStats:
    """One bundle each, equally busy."""
    names, one = (
        tuple(f"{name}/0x00000000_0xffffffff" for name in namespaces),
        np.ones(len(namespaces), dtype=np.int64),
    )
    return BundleStats(names, np.full((len(names), 4), 1e6), one, one)


@pytest.mark.parametrize("mode", BOTH)
def test_what_belongs_to_pulsar_stays(mode: Mode) -> None:
    seen = named("pulsar/system", "pulsar/b1:1", "sla-monitor/b1:1", "t/ns")
    assert TOP[mode](seen, PoliciesView(), TopSettings()) == (3,)


def test_namespaces_of_three_parts() -> None:
    """Pulsar 4.2.4 fails over such a name when it looks for policies, and does not know its old
    heartbeat any more.
    """
    seen = named("pulsar/c/b1:1", "t/ns")
    assert java_top_bundles(seen, PoliciesView(), TopSettings()) == TopFault(
        "java.lang.IllegalArgumentException"
    )
    assert java_top_bundles(seen, PoliciesView(), TopSettings(with_policies=True)) in (
        (0, 1),
        (1, 0),
    )
    assert top_bundles(seen, PoliciesView(), TopSettings()) == (1,)


def test_figures_that_are_no_numbers_are_not_offered_in_fixed_mode() -> None:
    seen = bundles(a=nan, b=inf, c=-1e6, d=1e6)
    assert top(seen, TopSettings(), "fixed") == ["d"]
    assert set(top(seen, TopSettings(), "parity")) == set("abcd")


@pytest.mark.parametrize("mode", BOTH)
def test_the_lightest_of_the_heaviest_comes_first(mode: Mode) -> None:
    """100,000 and 149,000 are both one step and equal; 151,000 is two."""
    seen = bundles(a=5e6, b=1e5, c=1.49e5, d=1.51e5, e=0.0, f=2e6)
    assert top(seen, TopSettings(most=3), mode) == ["d", "f", "a"]
    assert set(top(seen, TopSettings(), mode)) == set("abcdf")
