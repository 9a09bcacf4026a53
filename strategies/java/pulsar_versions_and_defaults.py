"""The Pulsar releases whose rules and defaults `pulsar.version` selects: the broker.conf keys whose
defaults differ between them, and the release of a cluster, by the versions that its brokers report.

A key that is not in the table has the same default in both. Sources: pull requests 26609 and 26610
of Apache Pulsar and its upgrade notes for 5.0, compared with the classes of 4.2.4 and 5.0.1.

The oldest broker decides: during an upgrade, any broker may be the leader. A version between two
known releases has the rules of the older one; an older or a newer version those of the nearest.

And in which respects the modes differ for every strategy: `parity` keeps what Pulsar does, `fixed`
repairs it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

from strategies.settings import Mode, Setting

#: A Pulsar release line whose defaults and rules are known; each name means its newest patch
#: release.
PulsarRelease = Literal["4.2", "5.0"]
#: Oldest first.
RELEASES: tuple[PulsarRelease, ...] = get_args(PulsarRelease)

#: Path of the setting that selects the release.
PULSAR_VERSION = "pulsar.version"

#: The release lines that parity mode can imitate, for rules that changed between lines; each name
#: means the newest patch release of its line. Source: the version notes of the classes of Pulsar
#: 3.0 to 4.2.
PulsarVersion = Literal["3.0", "3.3", "4.0", "4.1", "4.2"]
#: The type of a `pulsar_version` setting.
Imitated = Annotated[
    PulsarVersion, Setting("Pulsar release line whose rule `parity` imitates; ignored by `fixed`")
]

#: `4.2.4`, `5.0.1-SNAPSHOT`, `4.0.0.3-vendor`.
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})((?:\.\d{1,6})*)([-+._].*)?", re.ASCII | re.DOTALL)
#: Milestones of 5.0 still have the defaults and the AvgShedder of 4.2.
_MILESTONE = re.compile(r"-M\d+\b.*", re.ASCII | re.IGNORECASE | re.DOTALL)
#: Maximum characters of a version in a sentence.
_LONGEST = 40
_KNOWN: Mapping[tuple[int, ...], PulsarRelease] = {
    tuple(map(int, release.split("."))): release for release in RELEASES
}
_SEMANTIC = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)

#: Sorts like the version: three numbers, release after pre-releases, the parts of the pre-release
#: (numbers before words).
VersionKey = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]

_T = TypeVar("_T")
#: The broker.conf key that spreads bundles by number.
EVENLY = "loadBalancerDistributeBundlesEvenlyEnabled"
_MODULAR = "org.apache.pulsar.broker.loadbalance.impl"


@dataclass(frozen=True, slots=True)
class ReleaseDefault:
    """The defaults of a broker.conf key per release; None for a release that does not know the key.

    `followed`: our settings that mirror the key take the value of 5.0; with "4.2" they have the
    default of their class. False for keys that name a strategy: our own default stays.
    """

    values: Mapping[PulsarRelease, Any]
    followed: bool = True


def _differs(before: Any, after: Any, *, followed: bool = True) -> ReleaseDefault:
    return ReleaseDefault(MappingProxyType({"4.2": before, "5.0": after}), followed)


#: broker.conf key → its defaults, for all load-balancing and dispatching keys that differ.
RELEASE_DEFAULTS: Mapping[str, ReleaseDefault] = MappingProxyType(
    {
        # 26609
        "loadBalancerLoadSheddingStrategy": _differs(
            f"{_MODULAR}.ThresholdShedder", f"{_MODULAR}.AvgShedder", followed=False
        ),
        "loadBalancerLoadPlacementStrategy": _differs(
            f"{_MODULAR}.LeastLongTermMessageRate", f"{_MODULAR}.AvgShedder", followed=False
        ),
        "maxUnloadPercentage": _differs(0.2, 0.5),
        EVENLY: _differs(True, False),
        # 26610
        "defaultNumberOfNamespaceBundles": _differs(4, 32),
        "defaultNumberOfSystemNamespaceBundles": _differs(None, 64),
        # classes of 5.0.0-M1
        "loadManagerMigrationEnabled": _differs(None, False),
        # upgrade notes for 5.0
        "dispatcherMaxReadBatchSize": _differs(100, 500),
        "dispatcherDispatchMessagesInSubscriptionThread": _differs(True, False),
    }
)


def matches_ids(release: PulsarRelease) -> bool:
    """Whether isolation policies name brokers by id besides host."""
    return release != "4.2"


def follows_release(setting: Setting) -> bool:
    """Whether the default of a setting depends on the release."""
    return setting.pulsar is not None and _followed(setting.pulsar) is not None


def default_in(release: PulsarRelease, setting: Setting, default: _T) -> _T:
    """The default of a setting in a release. `default`: the one of its class."""
    found = None if setting.pulsar is None else _followed(setting.pulsar)
    if release == "4.2" or found is None:
        return default
    value: _T = found.values[release]
    return value


def defaults_in(release: PulsarRelease, settings: type[_T]) -> _T:
    """A settings class with the defaults of a release."""
    made = settings()
    given = {
        name: default_in(release, mark, getattr(made, name))
        for name, hint in get_type_hints(settings, include_extras=True).items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Setting)
    }
    return replace(made, **given) if given else made  # type: ignore[type-var]


def _followed(key: str) -> ReleaseDefault | None:
    found = RELEASE_DEFAULTS.get(key)
    return found if found is not None and found.followed else None


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


def version_key(version: str) -> VersionKey | None:
    """A key that sorts versions by semantic versioning (https://semver.org): a pre-release is older
    than its release, build metadata does not count. None for one that is not semantic.
    """
    found = _SEMANTIC.fullmatch(version)
    if found is None:
        return None
    major, minor, patch, early = found.groups()
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part)
        for part in (early or "").split(".")
    )
    return int(major), int(minor), int(patch), early is None, parts


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


@dataclass(frozen=True, slots=True)
class ModeRules:
    """What the mode decides about a round, whatever its strategy."""

    #: A commanded move counts as done before a report shows it.
    counts_moves: bool
    #: A broker that was due and sheds nothing is still due in the next round.
    keeps_due: bool
    #: A round may advise dispatch limits.
    advises: bool
    #: Brokers are compared only by resources that all of them measure, and by the operator's
    #: capacities.
    compares_measured: bool
    #: A placement that can shed places only where the same class sheds, as Pulsar pairs them.
    pairs: bool


MODE_RULES: Mapping[Mode, ModeRules] = MappingProxyType(
    {
        "fixed": ModeRules(True, True, True, True, False),
        "parity": ModeRules(False, False, False, False, True),
    }
)
