"""Runs all filters in Pulsar's order: returns the brokers that may take a bundle and, for each
other broker, the first refusal.

Source of the rule: steps 2 to 6 of `ModularLoadManagerImpl.selectBroker`, and the broker filters of
`ExtensibleLoadManagerImpl`, Pulsar 4.2.4. In parity mode a filter's result is dropped where Java
drops it; in fixed mode a refused broker stays refused.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Annotated, Literal

from strategies.filters.anti_affinity import (
    Counts,
    anti_affine,
    bundles_owned,
    group_members,
    java_may_leave,
    may_leave,
    more_crowded,
    namespaces_served,
)
from strategies.filters.broker_filters import (
    draining,
    no_less_even,
    no_room_for,
    not_newest,
    not_newest_known,
    other_load_manager,
    too_many_topics,
    topics_at_limit,
    uneven,
)
from strategies.filters.filter_input_and_result import (
    Allowed,
    FilteredBundle,
    FilterFacts,
    remaining,
)
from strategies.filters.isolation import isolated, no_other_broker
from strategies.settings import Mode, Setting
from strategies.states_and_advice_of_codes import (
    CHECK_FILTERS,
    CHECK_POLICIES,
    Meaning,
    Refusal,
    Refusals,
)

#: The reason codes of this module.
MEANINGS = (
    Meaning("no-broker-by-policy", "not-allowed", 350, CHECK_POLICIES),
    Meaning("anti-affinity-even", "not-allowed", 360, CHECK_POLICIES),
    Meaning("source", "cannot-help", 950, CHECK_FILTERS),
)

LoadManager = Literal["auto", "modular", "extensible"]

CLASS_OF = {
    "auto": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """Settings that decide which brokers may take a bundle, with Pulsar's defaults."""

    load_manager: Annotated[
        LoadManager,
        Setting(
            "Which load manager the brokers run; it decides the filters, their order, and how "
            "they count; auto: that of the strategy"
        ),
    ] = "auto"
    max_topics: Annotated[
        int,
        Setting(
            "Maximum number of topics that a broker serves",
            "topics",
            "loadBalancerBrokerMaxTopics",
            ge=0,
            le=1_000_000_000,
        ),
    ] = 50_000
    distribute_evenly: Annotated[
        bool | Literal["auto"],
        Setting(
            "Spread the bundles of a namespace over brokers by number (modular); auto: as the "
            "strategy needs it: steady spreads load instead",
            "",
            "loadBalancerDistributeBundlesEvenlyEnabled",
        ),
    ] = "auto"
    prefer_later_versions: Annotated[
        bool, Setting("Only brokers of the newest version take bundles", "", "preferLaterVersions")
    ] = False
    failure_domains: Annotated[
        bool,
        Setting(
            "Spread anti-affinity groups over failure domains first, then over brokers",
            "",
            "failureDomainsEnabled",
        ),
    ] = False


@dataclass(frozen=True)
class Filters:
    """The filters of one load manager."""

    settings: FilterSettings
    mode: Mode

    def allowed(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Allowed:
        """Filters these live brokers for the bundle. Never raises on valid input."""
        return self._form.allowed(self, subject, brokers, fleet)

    @cached_property
    def _form(self) -> "_FilterForm":
        return _FORMS[self.mode, self.settings.load_manager == "extensible"]

    @property
    def distributes_evenly(self) -> bool:
        """Whether the bundles of a namespace are spread over brokers by number."""
        settings = self.settings
        return bool(settings.distribute_evenly) and settings.load_manager != "extensible"

    def taker(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Callable[[str], bool]:
        """Returns a function that checks a single one of these brokers as `allowed` does, without
        evaluating more brokers than necessary.

        Fixed mode only. Filters that compare brokers with each other (groups, versions) evaluate
        all brokers.
        """
        settings = self.settings
        compared = settings.prefer_later_versions or group_members(
            fleet.policies.groups, subject.namespace
        )
        if compared:
            return frozenset(self.allowed(subject, brokers, fleet).brokers).__contains__
        policy = isolated(fleet.policies, subject.namespace, brokers)

        def passes(broker: str) -> bool:
            return broker not in policy and bool(self._each((broker,), subject, fleet).left)

        if not self.distributes_evenly:
            return passes
        return lambda broker: (
            passes(broker)
            and (
                broker in subject.exchanged_with
                or self._is_even(broker, subject, filter(passes, brokers), fleet)
            )
        )

    def _is_even(
        self, broker: str, subject: FilteredBundle, others: Iterable[str], fleet: FilterFacts
    ) -> bool:
        """The rule of `no_less_even` for one broker: at most as many bundles as the source without
        this one, or no broker has fewer.
        """
        served, source = partial(fleet.count_bundles, subject.namespace), subject.source
        count, before = served(broker), 0 if source is None else served(source)
        return count <= max(0, before - 1) or not any(served(other) < count for other in others)

    def must_stay(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Refusal | None:
        """Why the bundle must not leave its source for any broker; None when it may. The text
        continues a sentence about the bundle.
        """
        source = subject.source or ""
        policy = isolated(fleet.policies, subject.namespace, brokers)
        elsewhere = remaining([broker for broker in brokers if broker != source], policy)
        if not elsewhere:
            return Refusal(
                "no-broker-by-policy",
                no_other_broker(fleet.policies, subject.namespace, brokers),
            )
        counts = self._group_counts(subject, brokers, fleet)
        if counts is not None and not self._form.may_leave(
            source, remaining(brokers, policy), counts
        ):
            return Refusal(
                "anti-affinity-even",
                "must not leave: all brokers serve equally much of its anti-affinity group",
            )
        return None

    def _modular(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Allowed:
        policy = isolated(fleet.policies, subject.namespace, brokers)
        by_policy = remaining(brokers, policy)
        screen = _Screen(by_policy, dict(policy))
        topics, arriving = _counted(by_policy, fleet.topics), _counted(by_policy, fleet.arriving)
        screen.drop(too_many_topics(by_policy, topics, arriving, self.settings.max_topics))
        self._spread(screen, subject, fleet)
        if self.settings.distribute_evenly or subject.namespace == "pulsar/system":
            screen.drop(uneven(screen.left, fleet.bundle_counts(subject.namespace, screen.left)))
        screen.drop(other_load_manager(screen.left, fleet.policies.brokers, CLASS_OF["modular"]))
        if not self._keep_newest(screen, fleet) or not screen.left:
            return Allowed(by_policy, policy, by_policy)
        return screen.answer(by_policy)

    def _extensible(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Allowed:
        screen = _Screen(tuple(brokers), {})
        screen.drop(draining(screen.left, fleet.policies.brokers))
        screen.drop(other_load_manager(screen.left, fleet.policies.brokers, CLASS_OF["extensible"]))
        screen.drop(
            topics_at_limit(
                screen.left, _counted(screen.left, fleet.topics), self.settings.max_topics
            )
        )
        self._keep_newest(screen, fleet)
        self._spread(screen, subject, fleet)
        screen.drop(isolated(fleet.policies, subject.namespace, screen.left))
        return screen.answer(screen.left)

    def _fixed(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Allowed:
        """The filters of both load managers; isolation first, because its standby brokers depend on
        the live ones.
        """
        facts = fleet.policies.brokers
        policy = isolated(fleet.policies, subject.namespace, brokers)
        screen = self._each(remaining(brokers, policy), subject, fleet, policy)
        if self.settings.prefer_later_versions:
            screen.drop(not_newest_known(screen.left, facts))
        self._spread(screen, subject, fleet)
        self._crowd(screen, subject, fleet)
        if self.distributes_evenly:
            counted = fleet.bundle_counts(
                subject.namespace, [*screen.left, *([subject.source] if subject.source else [])]
            )
            crowded = no_less_even(screen.left, counted, subject.source)
            screen.drop(
                {name: why for name, why in crowded.items() if name not in subject.exchanged_with}
            )
        return screen.answer(remaining(brokers, policy))

    def _each(
        self,
        brokers: tuple[str, ...],
        subject: FilteredBundle,
        fleet: FilterFacts,
        refused: Refusals = MappingProxyType({}),
    ) -> "_Screen":
        """Applies the filters of fixed mode that judge each broker on its own."""
        facts, screen = fleet.policies.brokers, _Screen(brokers, dict(refused))
        screen.drop(_never(screen.left, subject.source, fleet.settling))
        screen.drop(draining(screen.left, facts))
        screen.drop(other_load_manager(screen.left, facts, CLASS_OF[self.settings.load_manager]))
        topics = {broker: fleet.topics(broker) + fleet.arriving(broker) for broker in screen.left}
        screen.drop(no_room_for(screen.left, topics, subject.topics, self.settings.max_topics))
        return screen

    def _keep_newest(self, screen: "_Screen", fleet: FilterFacts) -> bool:
        """Keeps the newest brokers if the settings ask for it; False when Java's filter fails
        instead.
        """
        if not self.settings.prefer_later_versions:
            return True
        refused = not_newest(screen.left, fleet.policies.brokers)
        screen.drop(refused or {})
        return refused is not None

    def _spread(self, screen: "_Screen", subject: FilteredBundle, fleet: FilterFacts) -> None:
        counts = self._group_counts(subject, screen.left, fleet)
        if counts is not None:
            domains = (
                fleet.policies.domains
                if self.settings.failure_domains and fleet.policies.domains
                else None
            )
            screen.drop(anti_affine(screen.left, counts, domains))

    def _crowd(self, screen: "_Screen", subject: FilteredBundle, fleet: FilterFacts) -> None:
        counts = None if subject.source is None else self._group_counts(subject, screen.left, fleet)
        if counts is not None and subject.source is not None:
            namespace = subject.namespace
            screen.drop(
                more_crowded(
                    screen.left,
                    counts,
                    subject.source,
                    lambda broker: namespace in fleet.served(broker),
                )
            )

    def _group_counts(
        self, subject: FilteredBundle, brokers: Sequence[str], fleet: FilterFacts
    ) -> Counts | None:
        """Broker → number of the bundle's anti-affinity group that it serves; None without a
        group.
        """
        members = group_members(fleet.policies.groups, subject.namespace)
        if not members:
            return None
        asked = dict.fromkeys([*brokers, *([subject.source] if subject.source else [])])
        return self._form.count(members, asked, fleet.served)


@dataclass(frozen=True, slots=True)
class _FilterForm:
    """What depends on the mode and the load manager: the filters, and the rules of anti-affinity
    groups.
    """

    allowed: Callable[[Filters, FilteredBundle, Sequence[str], FilterFacts], Allowed]
    count: Callable[[Sequence[str], Iterable[str], Callable[[str], Counts]], Counts]
    may_leave: Callable[[str, Sequence[str], Counts], bool]


@dataclass
class _Screen:
    """The brokers that remain while the filters run one after the other."""

    left: tuple[str, ...]
    refused: dict[str, Refusal]

    def drop(self, refused: Refusals) -> None:
        self.refused.update(refused)
        self.left = remaining(self.left, refused)

    def answer(self, by_policy: tuple[str, ...]) -> Allowed:
        return Allowed(self.left, self.refused, by_policy)


def _never(brokers: Sequence[str], source: str | None, settling: Collection[str]) -> Refusals:
    refused = {
        broker: Refusal("settling", "took part in a move that none of its samples shows yet")
        for broker in brokers
        if broker in settling
    }
    if source is not None and source in brokers:
        refused[source] = Refusal("source", "is where the bundle comes from")
    return refused


def _counted(brokers: Sequence[str], count: Callable[[str], int]) -> dict[str, int]:
    return {broker: count(broker) for broker in brokers}


_FIXED = _FilterForm(Filters._fixed, namespaces_served, may_leave)
#: Mode, and whether the load manager is the extensible one → form.
_FORMS: Mapping[tuple[Mode, bool], _FilterForm] = {
    ("fixed", False): _FIXED,
    ("fixed", True): _FIXED,
    ("parity", False): _FilterForm(Filters._modular, namespaces_served, java_may_leave),
    ("parity", True): _FilterForm(Filters._extensible, bundles_owned, java_may_leave),
}
