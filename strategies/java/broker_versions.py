"""Which Pulsar release's rules apply to a cluster, by the versions that its brokers report.

The oldest broker decides: during an upgrade, any broker may be the leader. A version between two
known releases has the rules of the older one; an older or a newer version those of the nearest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strategies.java.release_defaults import RELEASES, PulsarRelease

#: `4.2.4`, `5.0.1-SNAPSHOT`, `4.0.0.3-vendor`.
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})((?:\.\d{1,6})*)([-+._].*)?", re.ASCII | re.DOTALL)
#: Milestones of 5.0 still have the defaults and the AvgShedder of 4.2.
_MILESTONE = re.compile(r"-M\d+\b.*", re.ASCII | re.IGNORECASE | re.DOTALL)
#: Maximum characters of a version in a sentence.
_LONGEST = 40
_KNOWN: Mapping[tuple[int, ...], PulsarRelease] = {
    tuple(map(int, release.split("."))): release for release in RELEASES
}


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """A version that can be compared. `release`: whose rules apply; `exact`: they are known to be
    those of the version.
    """

    numbers: tuple[int, ...]
    is_milestone: bool
    release: PulsarRelease
    exact: bool

    @property
    def age(self) -> tuple[tuple[int, ...], bool]:
        """Sorts older versions first: a milestone is older than its release."""
        return self.numbers, not self.is_milestone


@dataclass(frozen=True, slots=True)
class ClusterRelease:
    """The release whose rules apply. `oldest`: the broker that decides and its version, None if no
    version is known; `brokers`: number of brokers with a known version; `remarks`: sentences about
    versions that are unknown or differ.
    """

    release: PulsarRelease
    oldest: tuple[str, str] | None
    brokers: int
    remarks: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """What decided, to follow the release in brackets."""
        if self.oldest is None:
            return "no broker names its version"
        broker, version = self.oldest
        oldest = f", the oldest of {self.brokers} brokers," if self.brokers > 1 else ""
        return f"{broker}{oldest} runs {_shown(version)}"


def read_version(text: str) -> BrokerVersion | None:
    """The version that a broker reports; None for a text that is none."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    line = int(found[1]), int(found[2])
    rest = tuple(int(part) for part in found[3].split(".") if part)
    is_milestone = rest in ((), (0,)) and _MILESTONE.fullmatch(found[4] or "") is not None
    if is_milestone and line == (5, 0):
        return BrokerVersion((*line, *rest), True, "4.2", True)
    known = [release for numbers, release in _KNOWN.items() if numbers <= line]
    release = known[-1] if known else RELEASES[0]
    return BrokerVersion((*line, *rest), is_milestone, release, line in _KNOWN)


def release_of(versions: Mapping[str, str]) -> ClusterRelease:
    """The release whose rules apply to brokers with these versions (broker → version)."""
    read = {broker: read_version(text) for broker, text in sorted(versions.items())}
    known = {broker: version for broker, version in read.items() if version is not None}
    odd = [broker for broker, version in read.items() if version is None]
    remarks = (
        [
            f"{_some(odd)} {_reports(odd)} {_shown(versions[odd[0]])!r}, which is no version of "
            "Pulsar: it does not count"
        ]
        if odd
        else []
    )
    if not known:
        return ClusterRelease(RELEASES[0], None, 0, tuple(remarks))
    by_age = sorted(known, key=lambda broker: (known[broker].age, broker))
    oldest, newest = by_age[0], by_age[-1]
    remarks += _not_exact(by_age, known, versions)
    if known[oldest].release != known[newest].release:
        remarks.append(
            f"brokers run {_shown(versions[oldest])} to {_shown(versions[newest])}: the rules of "
            f"the oldest, {known[oldest].release}, apply"
        )
    return ClusterRelease(
        known[oldest].release, (oldest, versions[oldest]), len(known), tuple(remarks)
    )


def _not_exact(
    brokers: Sequence[str], known: Mapping[str, BrokerVersion], versions: Mapping[str, str]
) -> list[str]:
    """One sentence per release whose rules replace those of versions that are not known."""
    remarks = []
    for release in RELEASES:
        there = [one for one in brokers if known[one].release == release and not known[one].exact]
        if there:
            verb = "runs" if len(there) == 1 else "run"
            remarks.append(
                f"{_some(there)} {verb} Pulsar {_shown(versions[there[0]])}, whose rules are not "
                f"known: those of {release}, the nearest known release, stand for them"
            )
    return remarks


def _some(brokers: Sequence[str]) -> str:
    more = len(brokers) - 1
    return f"{brokers[0]} and {more} more" if more else brokers[0]


def _reports(brokers: Sequence[str]) -> str:
    return "reports" if len(brokers) == 1 else "report versions such as"


def _shown(version: str) -> str:
    """The version as it is safe to print: what telemetry holds may be anything."""
    plain = version.encode("ascii", "backslashreplace").decode("ascii").strip()
    plain = "".join(sign if sign.isprintable() else "?" for sign in plain)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."
