"""Builders of what placements and filters see: one line per broker, usage in percent, rates in
messages/s.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from strategies.bundles import BundleLoads
from strategies.cluster.model import BrokerLoad, Figures, Resource, Traffic
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usage
from strategies.filters.filter_input_and_result import FilterFacts
from strategies.filters.filter_order_and_settings import Filters, FilterSettings
from strategies.filters.policies import PoliciesView, isolation_policy
from strategies.placement.contract import UNKNOWN, Averages, Candidate, Placement, Placer, Request
from strategies.settings import Mode, Weights

WEIGHTS = Weights()


def bundle_of(rate: float, topics: int = 0) -> Averages:
    """A bundle with this long-term rate, all of it inbound."""
    row = (rate, 0.0, 1000.0 * rate, 0.0)
    return Averages(row, row, topics=topics)


def candidate(
    name: str,
    percent: float,
    rate: float = 0.0,
    *,
    arriving: Mapping[str, Averages] | None = None,
    after: float | None = None,
    fresh: bool = True,
) -> Candidate:
    """A broker at `percent` of its CPU whose one bundle has this long-term rate. `after`: percent
    with all moves counted.
    """
    row = np.array([[rate, 0.0, 0.0, 0.0]])
    one = np.ones(1, dtype=np.int64)
    table = BundleLoads((f"t/{name}/0x0_0x1",), row, row, one, one, one, one, row)
    load = BrokerLoad(name, figures(percent, rate), lambda: table, fresh)
    expected = weighted_usage(figures(percent if after is None else after), WEIGHTS)
    return Candidate(load, weighted_usage(load.figures, WEIGHTS), expected, arriving or {})


def figures(percent: float, rate: float = 1.0) -> Figures:
    return Figures(cpu=Resource(percent, 100.0), traffic=Traffic(msg_rate_in=rate), bundle_count=1)


def brokers(**percents: float) -> list[Candidate]:
    """Brokers by name and usage in percent."""
    return [candidate(name, percent) for name, percent in percents.items()]


def request(
    *candidates: Candidate,
    bundle: str = "t/ns/0x0_0x1",
    seed: str = "",
    averages: Averages = UNKNOWN,
) -> Request:
    return Request(bundle, averages, {known.load.broker: known for known in candidates}, seed)


def placed(
    placer: Placer, *candidates: Candidate, memory: Memory | None = None, seed: str = ""
) -> Placement:
    return placer.place(request(*candidates, seed=seed), memory or Memory())


def best(placer: Placer, *candidates: Candidate, memory: Memory | None = None) -> list[str]:
    """The brokers among which Pulsar would draw."""
    return list(placed(placer, *candidates, memory=memory).best)


def policy(
    name: str,
    namespaces: Sequence[str],
    primary: Sequence[str],
    secondary: Sequence[str] = (),
    min_limit: int = 1,
) -> dict[str, object]:
    """An isolation policy as the admin API has it."""
    return {
        "name": name,
        "namespaces": list(namespaces),
        "primary": list(primary),
        "secondary": list(secondary),
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": str(min_limit), "usage_threshold": "80"},
        },
    }


def policies(*isolation: dict[str, object], **parts: object) -> PoliciesView:
    view = PoliciesView(
        isolation=tuple(isolation_policy(str(one["name"]), one) for one in isolation)
    )
    return replace(view, **parts)  # type: ignore[arg-type]  # the parts are those of PoliciesView


def fleet(
    known: PoliciesView | None = None,
    *,
    served: Mapping[str, Mapping[str, int]] | None = None,
    topics: Mapping[str, int] | None = None,
    settling: Iterable[str] = (),
) -> FilterFacts:
    """What brokers serve: namespace → bundles, and their topics."""
    return FilterFacts(
        known or PoliciesView(),
        lambda broker: (served or {}).get(broker, {}),
        lambda broker: (topics or {}).get(broker, 0),
        lambda namespace, broker: (served or {}).get(broker, {}).get(namespace, 0),
        settling=frozenset(settling),
    )


def filters(mode: Mode = "fixed", **settings: object) -> Filters:
    return Filters(FilterSettings(**settings), mode)  # type: ignore[arg-type]  # the settings are those of FilterSettings
