"""Parses a cluster's policies, from the snapshot in telemetry, into one typed value.

The snapshot is JSON, each part as Pulsar's admin API gives it:

    {"isolation": [{"name": …, "namespaces": [regex], "primary": [regex], "secondary": [regex],
     "auto_failover_policy": {…}}, …], "anti_affinity": {namespace: group}, "failure_domains":
     {domain: {"brokers": [broker]}}, "topic_counts": {bundle: number}, "brokers": {broker:
     {"version": …, "load_manager": …, "persistent": true, "non_persistent": true, "draining":
     false}}}

Every part may be missing. `isolation` may also be an object of policies by name; the first one that
matches governs, so its order counts. It may also be a text: why the collector could not read
them. An unreadable part becomes a complaint and, for isolation, a policy with a fault, because the
brokers it protects are unknown. The first complaints are spelled out, the others counted, because
every round repeats them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

from strategies.java.regex import JavaPattern, PatternError, compile_java

#: Number of complaints that are spelled out; maximum characters of a complaint and of a name in it.
_SPELLED_OUT, _LONGEST = 10, 300
_MOST_PATTERNS = 5_000
#: Limits of all isolation policies together: patterns, because every broker is matched against
#: each; their characters, because each is compiled; and the states of automata, because matching
#: may visit each state once per character of a name.
_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "patterns": _MOST_PATTERNS,
        "characters in patterns": 500_000,
        "states in patterns": 20_000,
    }
)


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Namespaces that belong on the primary brokers, and also on the secondary ones while fewer
    than `min_limit` primaries are alive.

    `fault`: why the policy cannot be applied; None for a valid one.
    """

    name: str
    namespaces: tuple[JavaPattern, ...] = ()
    primary: tuple[JavaPattern, ...] = ()
    secondary: tuple[JavaPattern, ...] = ()
    min_limit: int = 0
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """Facts about a broker besides its load; None = not known."""

    version: str | None = None
    load_manager: str | None = None
    persistent: bool = True
    non_persistent: bool = True
    draining: bool = False


@dataclass(frozen=True, slots=True)
class PoliciesView:
    """All policies. `groups`: namespace → anti-affinity group; `domains`: broker → failure domain;
    `topics`: bundle → topic count.

    `complaints`: one sentence per unreadable part, each starting with its place in the snapshot; at
    most eleven, see above. `by_id`: isolation policies also name brokers by id, as from Pulsar 5.0
    on.
    """

    isolation: tuple[IsolationPolicy, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[str, BrokerFacts] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()
    by_id: bool = False


def read_policies(snapshot: str | None) -> PoliciesView:
    """The policies of a snapshot; none for None. Never raises: errors are in `complaints`."""
    if snapshot is None:
        return PoliciesView()
    try:
        tree = json.loads(snapshot)
    except (ValueError, RecursionError) as error:
        return _unreadable(f"the snapshot is not JSON ({error})")
    if not isinstance(tree, dict):
        return _unreadable(f"the snapshot must be an object, got {_shown(tree)}")
    reader = _Reader()
    return PoliciesView(
        isolation=tuple(_isolation(reader, tree.get("isolation"))),
        groups=dict(_groups(reader, tree.get("anti_affinity"))),
        domains=_domains(reader, tree.get("failure_domains")),
        topics=dict(_topics(reader, tree.get("topic_counts"))),
        brokers=dict(_brokers(reader, tree.get("brokers"))),
        complaints=reader.said(),
    )


@dataclass(slots=True)
class _Budget:
    """The remaining budget for the patterns of all policies. `exceeded`: the exceeded limit as a
    sentence, empty while there is none.
    """

    left: dict[str, int] = field(default_factory=lambda: dict(_LIMITS))
    exceeded: str = ""

    def take(self, pattern: str) -> JavaPattern:
        """The pattern, compiled. Raises PatternError, _Fault."""
        self._spend("patterns", 1)
        self._spend("characters in patterns", len(pattern))
        found = compile_java(pattern)
        self._spend("states in patterns", found.states)
        return found

    def _spend(self, what: str, number: int) -> None:
        self.left[what] -= number
        if self.left[what] < 0:
            self.exceeded = f"all policies together have more than {_LIMITS[what]} {what}"
            raise _Fault(self.exceeded)


def isolation_policy(name: str, tree: object, budget: _Budget | None = None) -> IsolationPolicy:
    """One isolation policy in the form of the admin API. Never raises: a policy that cannot be
    applied has a fault.
    """
    name, budget = _short(name), budget or _Budget()
    if not isinstance(tree, dict):
        return IsolationPolicy(name, fault=f"it must be an object, got {_shown(tree)}")
    try:
        namespaces, primary, secondary = (
            _patterns(tree, key, budget) for key in ("namespaces", "primary", "secondary")
        )
        return IsolationPolicy(
            name, namespaces, primary, secondary, _min_limit(tree.get("auto_failover_policy"))
        )
    except _Fault as error:
        return IsolationPolicy(name, fault=_short(str(error)))


class _Fault(Exception):
    """Reason why an isolation policy cannot be applied."""


@dataclass
class _Reader:
    """Collects complaints while the parts are read."""

    complaints: list[str] = field(default_factory=list)
    more: int = 0

    def complain(self, place: str, sentence: str) -> None:
        if len(self.complaints) < _SPELLED_OUT:
            self.complaints.append(f"policies.{_short(place)}: {_short(sentence)}")
        else:
            self.more += 1

    def said(self) -> tuple[str, ...]:
        """The first complaints, and the number of the others."""
        return (
            *self.complaints,
            *([f"policies: {self.more} more parts cannot be read"] if self.more else []),
        )

    def entries(self, place: str, part: object) -> Iterator[tuple[str, Any]]:
        """The entries of an object; for any other value none, plus a complaint."""
        if isinstance(part, dict):
            yield from part.items()
        elif part is not None:
            self.complain(place, f"must be an object, got {_shown(part)}")


def _unreadable(sentence: str) -> PoliciesView:
    return PoliciesView(
        isolation=(IsolationPolicy("*", fault=sentence),), complaints=(f"policies: {sentence}",)
    )


def _isolation(reader: _Reader, part: object) -> Iterator[IsolationPolicy]:
    if part is not None and not isinstance(part, dict | list):
        sentence = (
            _short(part)
            if isinstance(part, str)
            else f"must be a list of policies, got {_shown(part)}"
        )
        reader.complain("isolation", sentence)
        yield IsolationPolicy("*", fault=sentence)
        return
    budget = _Budget()
    for name, tree in _named(part):
        policy = isolation_policy(name, tree, budget)
        if budget.exceeded:
            policy = IsolationPolicy("*", fault=budget.exceeded)
        if policy.fault is not None:
            reader.complain(f"isolation.{name}", policy.fault)
        yield policy
        if budget.exceeded:
            return


def _named(part: dict[str, Any] | list[Any] | None) -> Iterator[tuple[str, object]]:
    if isinstance(part, dict):
        yield from part.items()
        return
    for position, tree in enumerate(part or ()):
        name = tree.get("name") if isinstance(tree, dict) else None
        yield (name if isinstance(name, str) else f"[{position}]"), tree


def _patterns(tree: Mapping[str, object], key: str, budget: _Budget) -> tuple[JavaPattern, ...]:
    texts = tree.get(key)
    if not isinstance(texts, list):
        raise _Fault(f"{key} must be a list of regular expressions, got {_shown(texts)}")
    if len(texts) > _MOST_PATTERNS:
        raise _Fault(f"{key} holds {len(texts)} patterns, more than {_MOST_PATTERNS}")
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise _Fault(f"{key} must hold regular expressions, got {_shown(text)}")
        try:
            found.append(budget.take(text))
        except PatternError as error:
            raise _Fault(f"{key} holds {_shown(text)}: {error}") from error
    return tuple(found)


def _min_limit(policy: object) -> int:
    kind, parameters = (
        (policy.get("policy_type"), policy.get("parameters"))
        if isinstance(policy, dict)
        else (None, None)
    )
    if kind != "min_available" or not isinstance(parameters, dict):
        raise _Fault(
            "auto_failover_policy must be of type min_available and have parameters, got "
            f"{_shown(policy)}"
        )
    limit = parameters.get("min_limit")
    if (whole := _whole(limit)) is not None:
        return whole
    if isinstance(limit, str) and re.fullmatch(r"[+-]?[0-9]{1,9}", limit):
        return int(limit)
    raise _Fault(
        f"auto_failover_policy.parameters.min_limit must be a whole number, got {_shown(limit)}"
    )


def _groups(reader: _Reader, part: object) -> Iterator[tuple[str, str]]:
    for namespace, group in reader.entries("anti_affinity", part):
        if isinstance(group, str):
            yield namespace, group
        elif group is not None:
            reader.complain(
                f"anti_affinity.{namespace}", f"must be the name of a group, got {_shown(group)}"
            )


def _domains(reader: _Reader, part: object) -> dict[str, str]:
    found: dict[str, str] = {}
    for domain, value in reader.entries("failure_domains", part):
        listed = value.get("brokers") if isinstance(value, dict) else value
        if not isinstance(listed, list) or not all(isinstance(broker, str) for broker in listed):
            reader.complain(f"failure_domains.{domain}", f"must list brokers, got {_shown(value)}")
            continue
        for broker in cast(list[str], listed):
            # Old domains name brokers by web address, which means the broker of that host and port.
            name = broker.removeprefix("http://").removeprefix("https://").rstrip("/")
            if found.setdefault(name, domain) != domain:
                reader.complain(
                    f"failure_domains.{domain}",
                    f"{name} is in {found[name]} already; it stays there",
                )
    return found


def _whole(number: object) -> int | None:
    """A whole number, also one that is written with a point."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if number == number // 1 else None


def _topics(reader: _Reader, part: object) -> Iterator[tuple[str, int]]:
    for bundle, count in reader.entries("topic_counts", part):
        if (whole := _whole(count)) is not None and whole >= 0:
            yield bundle, whole
        else:
            reader.complain(
                f"topic_counts.{bundle}", f"must be a number of topics, got {_shown(count)}"
            )


def _brokers(reader: _Reader, part: object) -> Iterator[tuple[str, BrokerFacts]]:
    for broker, facts in reader.entries("brokers", part):
        known: dict[str, Any] = {}
        for key, value in reader.entries(f"brokers.{broker}", facts):
            wanted = {
                "version": str,
                "load_manager": str,
                "persistent": bool,
                "non_persistent": bool,
                "draining": bool,
            }.get(key)
            if wanted is None or value is None:
                continue
            if isinstance(value, wanted):
                known[key] = value
            else:
                kind = "a text" if wanted is str else "true or false"
                reader.complain(f"brokers.{broker}.{key}", f"must be {kind}, got {_shown(value)}")
        yield broker, BrokerFacts(**known)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
