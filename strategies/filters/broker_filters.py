"""Filters that compare brokers by number and by their state: bundles of a namespace are spread, a
broker serves a limited number of topics, has the newest version and the same load manager, and is
not about to shut down.

Source of the rules: `LoadManagerShared.removeMostServicingBrokersForNamespace`, the topic filter of
`ModularLoadManagerImpl`, `BrokerMaxTopicCountFilter`, `BrokerVersionFilter` and
`BrokerLoadManagerClassFilter` of Pulsar 4.2.4. Only the modular load manager spreads bundles. That
runs before load is compared, so a hot broker with few bundles of the namespace can become the only
choice; `no_less_even` repairs this. The modular load manager lets a broker reach the limit of
topics and ignores it when no broker is below it; the extensible one does neither.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from strategies.filters.policies import BrokerFacts
from strategies.java.pulsar_versions_and_defaults import VersionKey, version_key
from strategies.states_and_advice_of_codes import Meaning, Refusal, Refusals

#: The reason codes of this module.
MEANINGS = (
    Meaning("too-many-topics", "not-allowed", 440, "Raise filters.max_topics, or add brokers."),
    Meaning(
        "uneven",
        "not-allowed",
        450,
        "Set filters.distribute_evenly = false, if load matters more than numbers.",
    ),
    Meaning("draining", "not-allowed", 460, "Wait until the broker has shut down, or add brokers."),
    Meaning(
        "older-version",
        "not-allowed",
        470,
        "Upgrade the brokers, or set filters.prefer_later_versions = false.",
    ),
    Meaning("other-load-manager", "not-allowed", 480, "Check filters.load_manager."),
)

_UNKNOWN = BrokerFacts()


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


def too_many_topics(
    brokers: Sequence[str], topics: Mapping[str, int], arriving: Mapping[str, int], limit: int
) -> Refusals:
    """Modular: refuses brokers above the limit, arriving topics included; none if that refuses all.
    An unknown broker has no topics.
    """
    refused = {
        broker: _refusal(count, limit)
        for broker in brokers
        if (count := topics.get(broker, 0) + arriving.get(broker, 0)) > limit
    }
    return {} if len(refused) == len(brokers) else refused


def topics_at_limit(brokers: Sequence[str], topics: Mapping[str, int], limit: int) -> Refusals:
    """Extensible: refuses brokers at or above the limit. An unknown broker has no topics."""
    return {
        broker: _refusal(count, limit)
        for broker in brokers
        if (count := topics.get(broker, 0)) >= limit
    }


def no_room_for(
    brokers: Sequence[str], topics: Mapping[str, int], more: int, limit: int
) -> Refusals:
    """Fixed: refuses brokers that would be above the limit with `more` topics, for either load
    manager.
    """
    return {
        broker: _refusal(count, limit)
        for broker in brokers
        if (count := topics.get(broker, 0) + more) > limit
    }


def _refusal(count: int, limit: int) -> Refusal:
    return Refusal(
        "too-many-topics", f"would serve {count:,} topics, filters.max_topics = {limit} are allowed"
    )


def not_newest(brokers: Sequence[str], facts: Mapping[str, BrokerFacts]) -> Refusals | None:
    """Refuses brokers whose version is older than another's. None when the version of one is
    unknown: Pulsar's filter then filters no broker.
    """
    if None in _keys(brokers, facts).values():
        return None
    return not_newest_known(brokers, facts)


def not_newest_known(brokers: Sequence[str], facts: Mapping[str, BrokerFacts]) -> Refusals:
    """Fixed: as `not_newest`, but refuses brokers of an unreadable version, unless no version is
    readable.
    """
    keys = _keys(brokers, facts)
    newest = max((key for key in keys.values() if key is not None), default=None)
    return {
        broker: _older(facts.get(broker, _UNKNOWN).version)
        for broker, key in keys.items()
        if key != newest
    }


def _keys(brokers: Sequence[str], facts: Mapping[str, BrokerFacts]) -> dict[str, VersionKey | None]:
    return {broker: version_key(facts.get(broker, _UNKNOWN).version or "") for broker in brokers}


def other_load_manager(
    brokers: Sequence[str], facts: Mapping[str, BrokerFacts], load_manager: str
) -> Refusals:
    """Refuses brokers known to run another load manager than the one of this class name."""
    return {
        broker: Refusal(
            "other-load-manager",
            f"runs another load manager than filters.load_manager says, {named}",
        )
        for broker in (brokers if facts else ())
        if (named := facts.get(broker, _UNKNOWN).load_manager) is not None and named != load_manager
    }


def draining(brokers: Sequence[str], facts: Mapping[str, BrokerFacts]) -> Refusals:
    """Refuses brokers that are about to shut down."""
    refusal = Refusal("draining", "is being drained")
    return {
        broker: refusal
        for broker in (brokers if facts else ())
        if facts.get(broker, _UNKNOWN).draining
    }


def _older(version: str | None) -> Refusal:
    if version is None:
        return Refusal(
            "older-version",
            "runs an unknown version, while others are known to run the newest "
            "(filters.prefer_later_versions = true)",
        )
    return Refusal(
        "older-version",
        f"runs {version}, and others a newer version (filters.prefer_later_versions = true)",
    )
