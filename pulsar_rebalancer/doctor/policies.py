"""Checks that the live brokers can satisfy the cluster's isolation policies and anti-affinity
groups.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate, ok
from sinks.collector.collector import collect_policies
from sinks.pulsar_api.admin import PulsarAdmin
from strategies.errors import AdminError, Unauthorized
from strategies.filters.anti_affinity import group_of
from strategies.filters.isolation import isolated, role_of, unmatched
from strategies.filters.policies import IsolationPolicy, PoliciesView, read_policies

_ISOLATION, _GROUPS, _DOMAINS = "isolation policies", "anti-affinity groups", "failure domains"
_AT_ONCE = 16
_CORRECT = "correct the policy (pulsar-admin ns-isolation-policy set), or start these brokers"


def check_policies(
    admin: PulsarAdmin, brokers: Sequence[str], *, by_id: bool, domains: bool
) -> Iterator[Finding]:
    """Reads the policies as the collector does, and compares them with the live brokers. Raises
    Unauthorized.

    `by_id`: isolation policies also name brokers by id; `domains`: failure domains count.
    """
    try:
        snapshot = collect_policies(admin, {}, _AT_ONCE)
    except Unauthorized:
        raise
    except AdminError as error:
        remedy = "see the broker's log; until the collector can read them, no bundle moves"
        yield Finding(_ISOLATION, "fail", f"cannot be read: {error}", remedy)
        return
    view = replace(read_policies(json.dumps(snapshot)), by_id=by_id)
    yield from check_isolation(view, brokers)
    yield from check_groups(view, brokers)
    if domains:
        yield from check_domains(view, brokers)


def check_isolation(view: PoliciesView, brokers: Sequence[str]) -> Iterator[Finding]:
    """Policies that cannot be followed, that leave no broker or too few, or whose patterns match no
    live broker.
    """
    found = [finding for policy in view.isolation for finding in _of_policy(view, policy, brokers)]
    if view.isolation and not any(role_of(name, view, None).shared for name in brokers):
        found.append(
            Finding(
                _ISOLATION,
                "warn",
                "every live broker is primary in one of them: namespaces without a policy have no "
                "broker",
                "leave brokers out of all policies, or give all namespaces a policy",
            )
        )
    number = len(view.isolation)
    yield from found or [
        ok(_ISOLATION, f"{number}, each with enough live brokers" if number else "none are set")
    ]


def _of_policy(
    view: PoliciesView, policy: IsolationPolicy, brokers: Sequence[str]
) -> Iterator[Finding]:
    if policy.fault is not None:
        text = f"{policy.name} cannot be followed, and none of its bundles moves: {policy.fault}"
        yield Finding(_ISOLATION, "fail", text, "correct the policy")
        return
    roles = [role_of(broker, view, policy) for broker in brokers]
    primary = sum(1 for role in roles if role.primary)
    secondary = sum(1 for role in roles if role.secondary and not role.primary)
    wrong = unmatched(view, policy, brokers)
    if not primary + secondary:
        text = (
            f"{policy.name} leaves its namespaces no live broker: {wrong or 'it names no broker'}"
        )
        yield Finding(_ISOLATION, "fail", text, _CORRECT)
    elif primary + secondary < policy.min_limit:
        text = (
            f"{policy.name} has {primary} primary and {secondary} secondary live brokers, and "
            f"min_limit is {policy.min_limit}" + (f": {wrong}" if wrong else "")
        )
        yield Finding(_ISOLATION, "warn", text, _CORRECT)
    elif wrong:
        yield Finding(_ISOLATION, "warn", wrong, _CORRECT)


def check_groups(view: PoliciesView, brokers: Sequence[str]) -> Iterator[Finding]:
    """Groups with more namespaces than brokers that may take them."""
    members = defaultdict[str, list[str]](list)
    for namespace in view.groups:
        if group := group_of(view.groups, namespace).lower():
            members[group].append(namespace)
    found = []
    for group, namespaces in sorted(members.items()):
        allowed = {
            broker
            for namespace in namespaces
            for broker in {*brokers} - isolated(view, namespace, brokers).keys()
        }
        if len(namespaces) > max(1, len(allowed)):
            found.append(
                Finding(
                    _GROUPS,
                    "warn",
                    f"{group} has {len(namespaces)} namespaces, and {len(allowed)} live brokers "
                    "may take them: brokers serve several of them",
                    "add brokers, widen the isolation policies, or split the group",
                )
            )
    number = len(members)
    yield from found or [
        ok(_GROUPS, f"{number}, each with enough live brokers" if number else "none are set")
    ]


def check_domains(view: PoliciesView, brokers: Sequence[str]) -> Iterator[Finding]:
    """Failure domains without a live broker: they name brokers by id, host and port."""
    domains = {*view.domains.values()}
    empty = sorted(domains - {view.domains[name] for name in brokers if name in view.domains})
    yield evaluate(
        _DOMAINS,
        f"{len(domains)}, each with a live broker" if domains else "none are set",
        Rule(
            bool(empty),
            "warn",
            f"{', '.join(empty[:5])} of {len(domains)} have no live broker: their names are "
            f"compared with broker ids, such as {min(brokers, default='none')}",
            "correct the names (pulsar-admin clusters update-failure-domain), or start these "
            "brokers",
        ),
    )
