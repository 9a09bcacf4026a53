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


def version_key(version: str) -> VersionKey | None:
    """A key that sorts versions; None for one that is not semantic."""
    found = _SEMANTIC.fullmatch(version)
    if found is None:
        return None
    major, minor, patch, early = found.groups()
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in (early or "").split(".")
    )
    return int(major), int(minor), int(patch), early is None, parts


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
