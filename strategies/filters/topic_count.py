"""Limits the number of topics that a broker serves.

Source of the rule: the topic filter of `ModularLoadManagerImpl` and `BrokerMaxTopicCountFilter` of
Pulsar 4.2.4. The modular load manager lets a broker reach the limit and ignores the limit when no
broker is below it; the extensible one does neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strategies.reason_codes import Meaning, Refusal, Refusals

#: The reason codes of this module.
MEANINGS = (
    Meaning("too-many-topics", "not-allowed", 440, "Raise filters.max_topics, or add brokers."),
)


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
