"""The heaviest bundles of a broker: who is among them, in which order, and who is left out."""

from collections.abc import Callable, Mapping
from math import inf, nan

import numpy as np

from strategies.cluster.model import BundleStats
from strategies.filters.policies import PoliciesView, isolation_policy
from strategies.settings import Mode
from strategies.shedding.transfer.topk import TopFault, TopSettings, java_top_bundles, top_bundles
from tests.world.brokers import ns
from tests.world.placement import policy

#: What names bundles `a` and `b` of the tests.
POLICIES = PoliciesView((isolation_policy("p", policy("p", ["t/a"], [".*"])),), {"t/b": "group"})
Rule = Callable[[BundleStats, PoliciesView, TopSettings], tuple[int, ...] | TopFault]
TOP: Mapping[Mode, Rule] = {"fixed": top_bundles, "parity": java_top_bundles}


def bundles(**throughput: float) -> BundleStats:
    """Bundles of namespaces `t/<name>` with so many bytes/s inbound."""
    names = tuple(ns(0, f"t/{name}") for name in throughput)
    traffic = np.array([(0.0, 0.0, value, 0.0) for value in throughput.values()]).reshape(-1, 4)
    one = np.ones(len(names), dtype=np.int64)
    return BundleStats(names, traffic, one, one)


def top(stats: BundleStats, settings: TopSettings, mode: Mode = "fixed") -> list[str]:
    found = TOP[mode](stats, POLICIES, settings)
    assert not isinstance(found, TopFault)
    return [stats.names[row].split("/")[1] for row in found]


def named(*namespaces: str) -> BundleStats:
    """One bundle each, equally busy."""
    names = tuple(f"{name}/0x00000000_0xffffffff" for name in namespaces)
    one = np.ones(len(names), dtype=np.int64)
    return BundleStats(names, np.full((len(names), 4), 1e6), one, one)


def test_policies_exclusions_and_what_belongs_to_pulsar() -> None:
    seen = bundles(a=5e6, b=4e6, c=3e6, d=2e6)
    assert top(seen, TopSettings(excluded_namespaces="t/x, t/c")) == ["d"]
    assert top(seen, TopSettings(with_policies=True)) == ["d", "c", "b", "a"]
    pulsars = named("pulsar/system", "pulsar/b1:1", "sla-monitor/b1:1", "t/ns")
    assert top_bundles(pulsars, PoliciesView(), TopSettings()) == (3,)


def test_namespaces_of_three_parts() -> None:
    """Pulsar 4.2.4 fails over such a name when it looks for policies."""
    seen = named("pulsar/c/b1:1", "t/ns")
    assert java_top_bundles(seen, PoliciesView(), TopSettings()) == TopFault(
        "java.lang.IllegalArgumentException"
    )
    with_policies = java_top_bundles(seen, PoliciesView(), TopSettings(with_policies=True))
    assert with_policies in ((0, 1), (1, 0))
    assert top_bundles(seen, PoliciesView(), TopSettings()) == (1,)


def test_figures_that_are_no_numbers_are_not_offered_in_fixed_mode() -> None:
    seen = bundles(c=-1e6, d=1e6, e=nan, f=inf)
    assert top(seen, TopSettings()) == ["d"]
    assert set(top(seen, TopSettings(), "parity")) == set("cdef")


def test_the_lightest_of_the_heaviest_comes_first() -> None:
    """100,000 and 149,000 are both one step and equal; 151,000 is two."""
    seen = bundles(c=1.49e5, d=1.51e5, e=0.0, f=2e6, g=5e6, h=1e5)
    assert top(seen, TopSettings(most=3)) == ["d", "f", "g"]
    assert set(top(seen, TopSettings())) == set("cdfgh")
