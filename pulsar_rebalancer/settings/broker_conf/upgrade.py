"""The changes that an upgrade of Pulsar brings for a broker.conf: the keys that it leaves out and
whose default differs, what this leads to, and the lines that keep today's behaviour.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pulsar_rebalancer.settings.broker_conf.keys import (
    KEYS,
    PLACEMENT,
    SHEDDING,
    Value,
    class_name,
    is_extensible,
)
from strategies.java.pulsar_versions_and_defaults import (
    EVENLY,
    RELEASE_DEFAULTS,
    RELEASES,
    PulsarRelease,
)
from strategies.placement.registry import PLACERS, pulsars_own
from strategies.shedding.registry import EXTENSIBLE, SHEDDERS

#: Classes that both shed and place.
_BOTH = frozenset(entry.pulsar_class for entry in PLACERS.values() if entry.sheds)


_MAX_UNLOAD = "maxUnloadPercentage"
_BUNDLES = "defaultNumberOfNamespaceBundles"
#: Keys that rounds of load balancing depend on; a back-test shows the others in nothing.
_BALANCING = frozenset({SHEDDING, PLACEMENT, _MAX_UNLOAD, EVENLY})
#: Classes that read maxUnloadPercentage.
_READS_MAX_UNLOAD = frozenset(SHEDDERS[name].pulsar_class for name in ("avg", "uniform"))
_SHEDDING_EFFECTS: Mapping[str, str] = {
    "AvgShedder": "the fullest brokers are paired with the emptiest, and each pair shares out its "
    "difference",
    "ThresholdShedder": "brokers above the average usage shed, each by itself",
}
_PLACEMENT_EFFECTS: Mapping[str, str] = {
    "AvgShedder": "a bundle that AvgShedder moves goes where it planned, any other one to a random "
    "broker instead of the one with the lowest message rate",
    "LeastLongTermMessageRate": "a bundle goes to the broker with the lowest message rate",
}
#: Key → what its new value does with any strategy.
_OTHER_EFFECTS: Mapping[str, str] = {
    "defaultNumberOfNamespaceBundles": "a new namespace has {} bundles; existing ones keep theirs",
    "defaultNumberOfSystemNamespaceBundles": "pulsar/system has {} bundles if it is created again",
    "dispatcherMaxReadBatchSize": "a dispatcher reads up to {} entries at a time",
}


@dataclass(frozen=True, slots=True)
class StrategyPair:
    """The classes that shed and place. `starts`: whether the load manager starts with them;
    `remark`: what differs from the two keys, as a sentence, or empty.
    """

    shedding: str
    placement: str
    starts: bool = True
    remark: str = ""


def pair_in(release: PulsarRelease, given: Mapping[str, Value]) -> StrategyPair:
    """The pair in a release, with its defaults for keys that are not given."""
    if is_extensible(given):
        return _extensible(given)
    sheds, places = (
        str(given.get(key, KEYS[key].default_in(release))) for key in (SHEDDING, PLACEMENT)
    )
    if places in _BOTH and places != sheds:
        return _replaced(release, sheds, places)
    if sheds in _BOTH and places != sheds:
        text = (
            f"{class_name(sheds)} sheds and {class_name(places)} places: the destinations that "
            f"{class_name(sheds)} plans are not used"
        )
        return StrategyPair(sheds, places, remark=text)
    return StrategyPair(sheds, places)


def _replaced(release: PulsarRelease, sheds: str, places: str) -> StrategyPair:
    """A placement that sheds too, beside another shedding strategy."""
    only = f"{class_name(places)} places only where it sheds too, and {class_name(sheds)} sheds"
    if release == "4.2":
        return StrategyPair(sheds, places, False, f"{only}: the load manager does not start")
    instead = PLACERS[pulsars_own("4.2")].pulsar_class
    return StrategyPair(sheds, instead, remark=f"{only}: {class_name(instead)} places instead")


def _extensible(given: Mapping[str, Value]) -> StrategyPair:
    wanted = str(given.get(SHEDDING, EXTENSIBLE.pulsar_class))
    kept = EXTENSIBLE.java_class in wanted
    sheds = class_name(EXTENSIBLE.pulsar_class)
    remark = f"{class_name(wanted)} is for the modular load manager: {sheds} sheds"
    return StrategyPair(
        EXTENSIBLE.pulsar_class,
        PLACERS["least_resource_usage_extensible"].pulsar_class,
        remark="" if kept else remark,
    )


@dataclass(frozen=True, slots=True)
class OmittedKey:
    """A key that a broker.conf leaves out, with its defaults before and after; None: a release
    without the key. `effect`: a phrase.

    `changes`: whether something changes for this file; `balancing`: whether moves of bundles depend
    on the key; `keep`: the value that keeps today's behaviour, None if none is needed.
    """

    key: str
    before: Value | None
    after: Value | None
    effect: str
    changes: bool
    balancing: bool
    keep: Value | None

    @property
    def line(self) -> str | None:
        """The line of a broker.conf that keeps today's behaviour."""
        return None if self.keep is None else f"{self.key}={as_written(self.keep)}"


@dataclass(frozen=True)
class Upgrade:
    """The changes from one release to another for a broker.conf. `given`: its keys and values."""

    given: Mapping[str, Value]
    before: PulsarRelease
    after: PulsarRelease

    @cached_property
    def pairs(self) -> tuple[StrategyPair, StrategyPair]:
        """The strategies before and after."""
        return pair_in(self.before, self.given), pair_in(self.after, self.given)

    @cached_property
    def omitted(self) -> tuple[OmittedKey, ...]:
        """The keys that the file leaves out and whose defaults differ."""
        return tuple(self._omitted())

    @property
    def noun(self) -> str:
        """The name of the change."""
        newer = RELEASES.index(self.after) >= RELEASES.index(self.before)
        return "upgrade" if newer else "downgrade"

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that keep today's load balancing."""
        return tuple(one.line for one in self.omitted if one.balancing and one.line is not None)

    @property
    def other_lines(self) -> tuple[str, ...]:
        """The lines that keep what is not load balancing."""
        return tuple(one.line for one in self.omitted if not one.balancing and one.line is not None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences about the pair of strategies in a release, and about what no line keeps."""
        said = tuple(
            f"Pulsar {release}: {pair.remark}"
            for release, pair in zip((self.before, self.after), self.pairs, strict=True)
            if pair.remark
        )
        avg = SHEDDERS["avg"].pulsar_class
        if self.before == self.after or self.pairs[0].placement != avg:
            return said
        return (
            *said,
            "AvgShedder remembers planned destinations by traffic in 4.2, and by name for one "
            "round in 5.0: no key keeps the rule of the other release",
        )

    def _omitted(self) -> Iterator[OmittedKey]:
        for key, differs in RELEASE_DEFAULTS.items():
            old, new = differs.values[self.before], differs.values[self.after]
            if key not in self.given and old != new:
                changes, effect = self._effect(key, new)
                keep = self._kept(key, old) if changes else None
                yield OmittedKey(key, old, new, effect, changes, key in _BALANCING, keep)

    def _kept(self, key: str, old: Value | None) -> Value | None:
        """The value that keeps today's behaviour. Without a key of its own, the system namespace
        has the number of any other.
        """
        if key == "defaultNumberOfSystemNamespaceBundles" and old is None:
            number: Value = RELEASE_DEFAULTS[_BUNDLES].values[self.before]
            return self.given.get(_BUNDLES, number)
        return old

    def _effect(self, key: str, new: Value | None) -> tuple[bool, str]:
        """Says whether the new default changes something for this file, and what."""
        if key in _BALANCING and is_extensible(self.given):
            return False, "no effect: the extensible load manager does not use it"
        if key == SHEDDING:
            return True, _SHEDDING_EFFECTS[class_name(str(new))]
        if key == PLACEMENT:
            return self._placement()
        if key == _MAX_UNLOAD:
            return self._max_unload()
        return _other_effect(key, new)

    def _placement(self) -> tuple[bool, str]:
        before, after = (pair.placement for pair in self.pairs)
        if before == after:
            return False, f"{class_name(after)} still places: {self.pairs[1].remark}"
        return True, _PLACEMENT_EFFECTS[class_name(after)]

    def _max_unload(self) -> tuple[bool, str]:
        sheds = [pair.shedding for pair in self.pairs]
        if sheds[1] in _READS_MAX_UNLOAD:
            part = 100 * float(RELEASE_DEFAULTS[_MAX_UNLOAD].values[self.after])
            text = (
                f"{class_name(sheds[1])} moves up to {part:.0f} % of the difference of two "
                "brokers in one round"
            )
            return True, text
        return False, f"no effect: {class_name(sheds[1])} does not use it"


def _other_effect(key: str, new: Value | None) -> tuple[bool, str]:
    """The effect of a key that has the same effect with any strategy."""
    if key == EVENLY:
        spread = "are spread evenly by number" if new else "are no longer spread evenly by number"
        return True, f"the bundles of a namespace {spread} (those of pulsar/system always are)"
    if new is None:
        return False, "the key is unknown there and ignored"
    if key == "dispatcherDispatchMessagesInSubscriptionThread":
        own = "a thread of its own" if new else "the thread that reads them"
        return True, f"the messages of a subscription are dispatched by {own}"
    if key == "loadManagerMigrationEnabled":
        return False, "a new key; it changes nothing while it is false"
    return True, _OTHER_EFFECTS.get(key, "see the upgrade notes of Pulsar").format(new)


def as_written(value: Value | None) -> str:
    """A value as a broker.conf has it; a dash for a release without the key."""
    if value is None:
        return "–"
    return str(value).lower() if isinstance(value, bool) else str(value)
