"""Filters by a broker's state: keeps brokers of the newest version, with the same load manager, and
not about to shut down.

Source of the rule: `BrokerVersionFilter` and `BrokerLoadManagerClassFilter` of Pulsar 4.2.4.
Versions follow semantic versioning (https://semver.org): a pre-release is older than its release,
build metadata does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from strategies.filters.policies import BrokerFacts
from strategies.reason_codes import Meaning, Refusal, Refusals

#: The reason codes of this module.
MEANINGS = (
    Meaning("draining", "not-allowed", 460, "Wait until the broker has shut down, or add brokers."),
    Meaning(
        "older-version",
        "not-allowed",
        470,
        "Upgrade the brokers, or set filters.prefer_later_versions = false.",
    ),
    Meaning("other-load-manager", "not-allowed", 480, "Check filters.load_manager."),
)

_SEMANTIC = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_UNKNOWN = BrokerFacts()

#: Sorts like the version: three numbers, release after pre-releases, the parts of the pre-release
#: (numbers before words).
VersionKey = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


class VersionError(ValueError):
    """A broker's version is missing or not a semantic version; Pulsar's filter then filters no
    broker.
    """


def version_key(version: str) -> VersionKey:
    """A key that sorts versions. Raises VersionError."""
    found = _SEMANTIC.fullmatch(version)
    if found is None:
        raise VersionError(f"{version!r} is no semantic version")
    major, minor, patch, early = found.groups()
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in (early or "").split(".")
    )
    return int(major), int(minor), int(patch), early is None, parts


def not_newest(brokers: Sequence[str], facts: Mapping[str, BrokerFacts]) -> Refusals:
    """Refuses brokers whose version is older than another's. Raises VersionError when the version
    of one is unknown.
    """
    keys = {broker: version_key(facts.get(broker, _UNKNOWN).version or "") for broker in brokers}
    newest = max(keys.values(), default=None)
    return {broker: _older(facts[broker].version) for broker in brokers if keys[broker] != newest}


def not_newest_known(brokers: Sequence[str], facts: Mapping[str, BrokerFacts]) -> Refusals:
    """Fixed: as `not_newest`, but refuses brokers of an unreadable version, unless no version is
    readable.
    """
    keys: dict[str, VersionKey] = {}
    for broker in brokers:
        try:
            keys[broker] = version_key(facts.get(broker, _UNKNOWN).version or "")
        except VersionError:
            continue
    if not keys:
        return {}
    newest = max(keys.values())
    return {
        broker: _older(facts.get(broker, _UNKNOWN).version)
        for broker in brokers
        if keys.get(broker) != newest
    }


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
