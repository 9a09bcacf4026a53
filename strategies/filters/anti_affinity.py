"""Anti-affinity groups: namespaces of one group are spread over failure domains and brokers.

Source of the rule: `LoadManagerShared.filterAntiAffinityGroupOwnedBrokers` and
`shouldAntiAffinityNamespaceUnload` of Pulsar 4.2.4. The modular load manager counts how many
namespaces of the group a broker serves, the extensible one how many of their bundles it owns.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from strategies.ordered_sum import ordered_sum
from strategies.states_and_advice_of_codes import CHECK_POLICIES, Meaning, Refusal, Refusals

#: The reason codes of this module.
MEANINGS = (
    Meaning("anti-affinity", "not-allowed", 370, CHECK_POLICIES),
    Meaning("failure-domain", "not-allowed", 380, CHECK_POLICIES),
)

#: Failure domain of brokers that belong to none.
_NO_DOMAIN = "default"

Counts = Mapping[str, int]


def group_of(groups: Mapping[str, str], namespace: str) -> str:
    """The group of a namespace; empty if it has none or a blank one."""
    group = groups.get(namespace, "")
    return "" if group.isspace() else group


def group_members(groups: Mapping[str, str], namespace: str) -> tuple[str, ...]:
    """All namespaces in the group of a namespace, itself included; none without a group. Group
    names are compared without case.
    """
    group = group_of(groups, namespace)
    if not group:
        return ()
    return tuple(other for other, name in groups.items() if name.lower() == group.lower())


def namespaces_served(
    members: Sequence[str], brokers: Iterable[str], served: Callable[[str], Counts]
) -> Counts:
    """Broker → number of these namespaces of which it serves a bundle. `served`: broker → namespace
    → number of bundles.
    """
    return {broker: sum(member in served(broker) for member in members) for broker in brokers}


def bundles_owned(
    members: Sequence[str], brokers: Iterable[str], served: Callable[[str], Counts]
) -> Counts:
    """Broker → number of bundles of these namespaces that it owns."""
    return {
        broker: ordered_sum(served(broker).get(member, 0) for member in members)
        for broker in brokers
    }


def anti_affine(
    brokers: Sequence[str], counts: Counts, domains: Mapping[str, str] | None
) -> Refusals:
    """Refuses brokers outside the domains with the smallest sum of counts and, inside these
    domains, brokers above the smallest count.

    `counts`: broker → served part of the group; `domains`: broker → failure domain, None when
    domains do not matter.
    """
    refused = {} if domains is None else dict(_in_crowded_domains(brokers, counts, domains))
    rest = [broker for broker in brokers if broker not in refused]
    least = min((counts.get(broker, 0) for broker in rest), default=0)
    for broker in rest:
        count = counts.get(broker, 0)
        if count > least:
            refused[broker] = Refusal(
                "anti-affinity",
                f"serves {count} of the anti-affinity group, another broker only {least}",
            )
    return refused


def more_crowded(
    brokers: Sequence[str], counts: Counts, source: str, has_it: Callable[[str], bool]
) -> Refusals:
    """Fixed: refuses brokers that would serve more namespaces of the group than the source now.
    `has_it`: it serves this one already.
    """
    most = counts.get(source, 0)
    return {
        broker: Refusal(
            "anti-affinity",
            f"would serve {after} of the anti-affinity group, its present broker serves {most}",
        )
        for broker in brokers
        if (after := counts.get(broker, 0) + (not has_it(broker))) > most
    }


def may_leave(source: str, brokers: Sequence[str], counts: Counts) -> bool:
    """Whether a bundle may be unloaded. When all brokers serve equally many of the group, it would
    come back, so it may not.
    """
    if not brokers:
        return True
    at_most = [counts.get(broker, 0) for broker in brokers]
    least = min(at_most)
    return least == 0 or counts.get(source, 0) > least or len(set(at_most)) > 1


def java_may_leave(source: str, brokers: Sequence[str], counts: Counts) -> bool:
    """The same as in Java, which looks up the present broker among the candidates only."""
    return may_leave(source, brokers, {broker: counts.get(broker, 0) for broker in brokers})


def _in_crowded_domains(
    brokers: Sequence[str], counts: Counts, domains: Mapping[str, str]
) -> Refusals:
    sums: Counter[str] = Counter()
    for broker in brokers:
        sums[domains.get(broker, _NO_DOMAIN)] += counts.get(broker, 0)
    least = min(sums.values(), default=0)
    return {
        broker: Refusal(
            "failure-domain",
            f"is in failure domain {domain}, which serves {sums[domain]} of the group, "
            f"another only {least}",
        )
        for broker in brokers
        if sums[domain := domains.get(broker, _NO_DOMAIN)] > least
    }
