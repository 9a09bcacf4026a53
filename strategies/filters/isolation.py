"""Namespace isolation: the brokers a policy reserves for a namespace, its standby brokers, and the
shared ones for all others.

Source of the rule: `SimpleResourceAllocationPolicies` and
`LoadManagerShared.applyNamespacePolicies` of Pulsar 4.2.4 and 5.0.1. Patterns match the whole
namespace and the whole host of a broker, the text before its last colon; from 5.0 on, its host or
its whole id. The class of 5.0 that matches ids was not available: it is assumed to match as the
others do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strategies.filters.contract import Refusal, Refusals
from strategies.filters.policies import BrokerFacts, IsolationPolicy, PoliciesView
from strategies.java.regex import JavaPattern

_UNKNOWN = BrokerFacts()


@dataclass(frozen=True, slots=True)
class Role:
    """Role of a broker: `primary` or `secondary` in the governing policy; `shared` when no policy
    names it as primary.
    """

    primary: bool
    secondary: bool
    shared: bool


def governing(policies: PoliciesView, namespace: str) -> IsolationPolicy | None:
    """The first policy, in the order of the document, that matches the namespace; a policy with a
    fault counts as a match.
    """
    for policy in policies.isolation:
        if policy.fault is not None or _matches(policy.namespaces, namespace):
            return policy
    return None


def role_of(broker: str, policies: PoliciesView, policy: IsolationPolicy | None) -> Role:
    """The role of a broker under the governing policy (None: the namespace has none)."""
    host = broker.rpartition(":")[0] or broker
    names = (host, broker) if policies.by_id else (host,)
    return Role(
        policy is not None and _match_any(policy.primary, names),
        policy is not None and _match_any(policy.secondary, names),
        not any(_match_any(other.primary, names) for other in policies.isolation),
    )


def isolated(
    policies: PoliciesView, namespace: str, brokers: Sequence[str], *, non_persistent: bool = False
) -> Refusals:
    """Refuses brokers that the policies forbid for this namespace. `non_persistent`: the bundle
    holds such topics.
    """
    policy = governing(policies, namespace)
    if policy is None:
        return _not_shared(policies, brokers, non_persistent)
    if policy.fault is not None:
        refusal = Refusal(
            "isolation-unreadable",
            f"may be out of bounds: isolation policy {policy.name} cannot be followed, "
            f"{policy.fault}",
        )
        return dict.fromkeys(brokers, refusal)
    return _not_of_policy(policies, policy, brokers)


def _not_of_policy(
    policies: PoliciesView, policy: IsolationPolicy, brokers: Sequence[str]
) -> Refusals:
    roles = {broker: role_of(broker, policies, policy) for broker in brokers}
    primaries = sum(1 for role in roles.values() if role.primary)
    outside = Refusal(
        "isolation-outside", f"is neither primary nor secondary of isolation policy {policy.name}"
    )
    waiting = Refusal(
        "isolation-standby",
        f"is secondary of isolation policy {policy.name}, which has {primaries} primary "
        f"brokers and needs {policy.min_limit}",
    )
    refused = {}
    for broker, role in roles.items():
        if not role.primary and not role.secondary:
            refused[broker] = outside
        elif not role.primary and primaries >= policy.min_limit:
            refused[broker] = waiting
    return refused


def _not_shared(policies: PoliciesView, brokers: Sequence[str], non_persistent: bool) -> Refusals:
    if not policies.isolation and not policies.brokers:
        return {}
    refused = {}
    kind = "non-persistent" if non_persistent else "persistent"
    for broker in brokers:
        facts = policies.brokers.get(broker, _UNKNOWN)
        if not (facts.non_persistent if non_persistent else facts.persistent):
            refused[broker] = Refusal("topics-not-served", f"does not serve {kind} topics")
        elif not role_of(broker, policies, None).shared:
            refused[broker] = Refusal(
                "isolation-reserved", "is reserved for other namespaces by an isolation policy"
            )
    return refused


def _match_any(patterns: Sequence[JavaPattern], names: Sequence[str]) -> bool:
    return any(_matches(patterns, name) for name in names)


def _matches(patterns: Sequence[JavaPattern], text: str) -> bool:
    return any(pattern.matches(text) for pattern in patterns)
