"""The largest number of topics a broker may serve.

Source of the rule: the topic filter of `ModularLoadManagerImpl` and `BrokerMaxTopicCountFilter` of Pulsar 4.2.4. The modular load manager
lets a broker reach the limit and forgets the limit when nobody is below it; the extensible one does neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strategies.filters.contract import Refusal, Refusals


def too_many_topics(brokers: Sequence[str], topics: Mapping[str, int], arriving: Mapping[str, int], limit: int) -> Refusals:
    """Modular: brokers above the limit, topics of bundles on their way included; none if that would be all. An unknown broker has none."""
    refused = {broker: _refusal(count, limit) for broker in brokers if (count := topics.get(broker, 0) + arriving.get(broker, 0)) > limit}
    return {} if len(refused) == len(brokers) else refused


def topics_at_limit(brokers: Sequence[str], topics: Mapping[str, int], limit: int) -> Refusals:
    """Extensible: brokers at the limit or above. A broker that nothing is known of has none."""
    return {broker: _refusal(count, limit) for broker in brokers if (count := topics.get(broker, 0)) >= limit}


def no_room_for(brokers: Sequence[str], topics: Mapping[str, int], more: int, limit: int) -> Refusals:
    """Fixed: brokers that would be above the limit with `more` topics, for either load manager."""
    return {broker: _refusal(count, limit) for broker in brokers if (count := topics.get(broker, 0) + more) > limit}


def _refusal(count: int, limit: int) -> Refusal:
    return Refusal("too-many-topics", f"would serve {count:,} topics, filters.max_topics = {limit} are allowed")
