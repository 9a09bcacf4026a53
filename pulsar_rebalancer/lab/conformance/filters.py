"""The `filters` suite: which brokers may take a bundle."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from pulsar_rebalancer.lab.conformance.case_data import settings_of
from pulsar_rebalancer.lab.conformance.vectors import Case, Number, Played
from strategies.bundles import namespace_of
from strategies.filters.anti_affinity import (
    anti_affine,
    bundles_owned,
    group_members,
    java_may_leave,
    namespaces_served,
)
from strategies.filters.broker_filters import too_many_topics, topics_at_limit, uneven
from strategies.filters.filter_input_and_result import remaining
from strategies.filters.filter_order_and_settings import FilterSettings
from strategies.filters.isolation import governing, isolated, role_of
from strategies.filters.policies import BrokerFacts, PoliciesView, isolation_policy
from strategies.java.pulsar_versions_and_defaults import PulsarRelease, matches_ids
from strategies.ordered_sum import ordered_sum

Manager = Literal["modular", "extensible"]
_T = TypeVar("_T")
Conf = dict[str, Number | bool]


class AffinityQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Candidates of a bundle, and what brokers have of its group."""

    manager: Manager
    bundle: str
    candidates: list[str]
    conf: Conf = {}
    groups: dict[str, str] = {}
    domains: dict[str, str] | None = None
    current: str | None = None
    broker_bundles: dict[str, list[str]] = {}
    ownership: list[tuple[str, str, str | None]] = []


class SpreadQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Candidates of a bundle, and the bundles of all brokers."""

    bundle: str
    candidates: list[str]
    broker_bundles: dict[str, list[str]] = {}


class IsolationQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Brokers, and the isolation policies that name them."""

    bundle: str
    brokers: list[str]
    policies: dict[str, Any] | None = None
    non_persistent: bool = False
    persistent_disabled: list[str] = []
    non_persistent_disabled: list[str] = []


class _ArrivingTopics(msgspec.Struct, frozen=True):
    topics: int = 0


class _BrokerTopics(msgspec.Struct, frozen=True, rename="camel"):
    num_topics: int = 0
    preallocated: dict[str, _ArrivingTopics] = {}


class TopicCountQuery(msgspec.Struct, frozen=True):
    """Candidates, and the topics of all brokers."""

    manager: Manager
    candidates: list[str]
    brokers: dict[str, _BrokerTopics] = {}
    conf: Conf = {}


def filtered(
    form: type[_T], answer_query: Callable[[_T, PulsarRelease], dict[str, Any]], case: Case
) -> Played:
    """Runs one filter. `answer_query`: converts a query of this form to the filter's answer in a
    release. Raises SettingsError for a case of another form.
    """
    for query, answer in case.answered(form, "queries"):
        yield answer, answer_query(query, case.release)


def anti_affinity(query: AffinityQuery, _: PulsarRelease) -> dict[str, Any]:
    """The brokers that remain when a group's namespaces are spread, and whether the bundle may
    leave its broker.
    """
    served = _served(query)
    members = group_members(query.groups, namespace_of(query.bundle))
    count = namespaces_served if query.manager == "modular" else bundles_owned
    counts = count(
        members, dict.fromkeys([*query.candidates, *served]), lambda broker: served.get(broker, {})
    )
    domains = query.domains if settings_of(FilterSettings, query.conf).failure_domains else None
    refused = anti_affine(query.candidates, counts, domains) if members else {}
    leaves = (
        None
        if query.current is None
        else not members or java_may_leave(query.current, query.candidates, counts)
    )
    return {"candidates": sorted(remaining(query.candidates, refused)), "shouldUnload": leaves}


def even_distribution(query: SpreadQuery, _: PulsarRelease) -> dict[str, Any]:
    """The brokers with the fewest bundles of the namespace."""
    namespace = namespace_of(query.bundle)
    counts = {
        broker: Counter(map(namespace_of, bundles))[namespace]
        for broker, bundles in query.broker_bundles.items()
    }
    return {"candidates": sorted(remaining(query.candidates, uneven(query.candidates, counts)))}


def isolation(query: IsolationQuery, release: PulsarRelease) -> dict[str, Any]:
    """The brokers that may serve a namespace by the isolation policies, and the role of every
    broker.
    """
    facts = {
        broker: BrokerFacts(
            persistent=broker not in query.persistent_disabled,
            non_persistent=broker not in query.non_persistent_disabled,
        )
        for broker in query.brokers
    }
    policies = PoliciesView(
        tuple(isolation_policy(name, tree) for name, tree in (query.policies or {}).items()),
        brokers=facts,
        by_id=matches_ids(release),
    )
    namespace = namespace_of(query.bundle)
    policy = governing(policies, namespace)
    roles = {broker: role_of(broker, policies, policy) for broker in query.brokers}
    return {
        "candidates": sorted(
            remaining(
                query.brokers,
                isolated(policies, namespace, query.brokers, non_persistent=query.non_persistent),
            )
        ),
        "governed": policy is not None,
        "roles": {
            broker: "P" * role.primary + "S" * role.secondary + "H" * role.shared
            for broker, role in roles.items()
        },
    }


def topic_count(query: TopicCountQuery, _: PulsarRelease) -> dict[str, Any]:
    """The brokers that may take more topics."""
    limit = settings_of(FilterSettings, query.conf).max_topics
    topics = {broker: known.num_topics for broker, known in query.brokers.items()}
    arriving = {
        broker: ordered_sum(arrival.topics for arrival in known.preallocated.values())
        for broker, known in query.brokers.items()
    }
    modular = query.manager == "modular"
    refused = (
        too_many_topics(query.candidates, topics, arriving, limit)
        if modular
        else topics_at_limit(query.candidates, topics, limit)
    )
    return {"candidates": sorted(remaining(query.candidates, refused))}


def _served(query: AffinityQuery) -> dict[str, Counter[str]]:
    """Broker → namespace → bundles it serves (modular) or owns (extensible)."""
    found = {
        broker: Counter(map(namespace_of, bundles))
        for broker, bundles in query.broker_bundles.items()
    }
    for bundle, state, owner in query.ownership:
        if state == "Owned" and owner:
            found.setdefault(owner, Counter())[namespace_of(bundle)] += 1
    return found
