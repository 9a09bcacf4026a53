"""Namespace isolation: the brokers a policy reserves for a namespace, its standby brokers, and the
shared ones for all others.

Source of the rule: `SimpleResourceAllocationPolicies` and
`LoadManagerShared.applyNamespacePolicies` of Pulsar 4.2.4 and 5.0.1. Patterns match the whole
namespace and the whole host of a broker, the text before its last colon; from 5.0 on, its host or
its whole id. The class of 5.0 that matches ids was not available: it is assumed to match as the
others do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from strategies.filters.policies import BrokerFacts, IsolationPolicy, PoliciesView
from strategies.java.regex import JavaPattern
from strategies.states_and_advice_of_codes import CHECK_POLICIES, Meaning, Refusal, Refusals

#: The reason codes of this module.
MEANINGS = (
    Meaning(
        "isolation-unreadable",
        "not-allowed",
        390,
        "Correct the isolation policy that the reason names.",
    ),
    Meaning("isolation-outside", "not-allowed", 400, CHECK_POLICIES),
    Meaning("isolation-standby", "not-allowed", 410, CHECK_POLICIES),
    Meaning("isolation-reserved", "not-allowed", 420, CHECK_POLICIES),
    Meaning("topics-not-served", "not-allowed", 430, "Enable these topics on more brokers."),
)

_UNKNOWN = BrokerFacts()
#: Patterns that a sentence names, and characters of each.
_NAMED, _LONGEST = 5, 60


@dataclass(frozen=True, slots=True)
class Role:
    """Role of a broker: `primary` or `secondary` in the governing policy; `shared` when no policy
    names it as primary.
    """

    primary: bool
    secondary: bool
    shared: bool


def no_other_broker(policies: PoliciesView, namespace: str, brokers: Sequence[str]) -> str:
    """Why a bundle has no other of these brokers; continues a sentence about the bundle."""
    policy = governing(policies, namespace)
    why = "" if policy is None else unmatched(policies, policy, brokers)
    return "has no other broker that the isolation policies allow" + (f": {why}" if why else "")


def governing(policies: PoliciesView, namespace: str) -> IsolationPolicy | None:
    """The first policy, in the order of the document, that matches the namespace; a policy with a
    fault counts as a match.
    """
    for policy in policies.isolation:
        if policy.fault is not None or _match_any(policy.namespaces, (namespace,)):
            return policy
    return None


def role_of(broker: str, policies: PoliciesView, policy: IsolationPolicy | None) -> Role:
    """The role of a broker under the governing policy (None: the namespace has none)."""
    names = _names(broker, policies)
    return Role(
        policy is not None and _match_any(policy.primary, names),
        policy is not None and _match_any(policy.secondary, names),
        not any(_match_any(other.primary, names) for other in policies.isolation),
    )


def unmatched(policies: PoliciesView, policy: IsolationPolicy, brokers: Sequence[str]) -> str:
    """Names the patterns of a policy that match none of the live brokers, and says what is
    compared; empty if all match.
    """
    names = dict.fromkeys(name for broker in brokers for name in _names(broker, policies))
    wrong = (
        f"{role} {pattern.pattern}"
        for role, patterns in (("primary", policy.primary), ("secondary", policy.secondary))
        for pattern in patterns
        if not _matches_one(pattern, names)
    )
    found = list(islice(wrong, _NAMED + 1))
    if not found or not names:
        return ""
    host, *ids = _names(min(brokers), policies)
    compared = f"whole host names, without ports, such as {host}"
    if ids:
        compared = f"whole host names and broker ids, such as {host} and {ids[0]}"
    return (
        f"no live broker matches {_first(found)} of isolation policy {policy.name} (namespaces "
        f"{_first([pattern.pattern for pattern in policy.namespaces])}): its patterns are compared "
        f"with {compared}"
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


def _names(broker: str, policies: PoliciesView) -> tuple[str, ...]:
    """What patterns are compared with."""
    host = broker.rpartition(":")[0] or broker
    return (host, broker) if policies.by_id else (host,)


def _matches_one(pattern: JavaPattern, names: Mapping[str, None]) -> bool:
    """Whether a pattern matches one of the names. Most are a name with escaped dots: looking it up
    saves comparing thousands.
    """
    literal = pattern.pattern.replace("\\.", ".")
    return (literal in names and pattern.matches(literal)) or any(map(pattern.matches, names))


def _first(texts: Sequence[str]) -> str:
    """The first ones, shortened."""
    more = " and others" if len(texts) > _NAMED else ""
    return ", ".join(text[:_LONGEST] for text in texts[:_NAMED]) + more


def _match_any(patterns: Sequence[JavaPattern], names: Sequence[str]) -> bool:
    return any(pattern.matches(name) for name in names for pattern in patterns)
