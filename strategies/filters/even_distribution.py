"""Even distribution: the bundles of one namespace are spread over brokers by number.

Source of the rule: `LoadManagerShared.removeMostServicingBrokersForNamespace` of Pulsar 4.2.4,
which only the modular load manager uses. It runs before load is compared, so a hot broker with few
bundles of the namespace can become the only choice; `no_less_even` repairs this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from strategies.reason_codes import Meaning, Refusal, Refusals

#: The reason codes of this module.
MEANINGS = (
    Meaning(
        "uneven",
        "not-allowed",
        450,
        "Set filters.distribute_evenly = false, if load matters more than numbers.",
    ),
)


@dataclass(frozen=True, slots=True)
class EvenDistribution:
    """Bundles of a namespace are spread over brokers by number: a move decides which ones may
    follow. `takers(bundle, source)`: the brokers that all other filters allow; `count(namespace,
    broker)`: bundles of the namespace on the broker, with those on their way.
    """

    takers: Callable[[str, str], Collection[str]]
    count: Callable[[str, str], int]


def uneven(brokers: Sequence[str], counts: Mapping[str, int]) -> Refusals:
    """Refuses brokers that serve more bundles of the namespace than another broker. `counts`:
    broker → bundles of the namespace.
    """
    return _above(brokers, counts, min((counts.get(broker, 0) for broker in brokers), default=0))


def no_less_even(brokers: Sequence[str], counts: Mapping[str, int], source: str | None) -> Refusals:
    """Refuses brokers that would serve more bundles of the namespace than the source serves now,
    unless no broker serves fewer.
    """
    least = min((counts.get(broker, 0) for broker in brokers), default=0)
    before = 0 if source is None else counts.get(source, 0)
    return _above(brokers, counts, max(least, before - 1))


def _above(brokers: Sequence[str], counts: Mapping[str, int], most: int) -> Refusals:
    return {
        broker: Refusal(
            "uneven",
            f"serves {count} bundles of the namespace already, {most} are allowed with "
            "filters.distribute_evenly = true",
        )
        for broker in brokers
        if (count := counts.get(broker, 0)) > most
    }
