"""What must hold of every placement and of every round of destinations, whatever the cluster: hypothesis looks for a counterexample."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import fsum, inf, nan

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies.filters.contract import namespace_of
from strategies.filters.pipeline import Filters, FilterSettings
from strategies.filters.policies import BrokerFacts, PoliciesView, isolation_policy
from strategies.model import (
    BrokerLoad,
    BrokerMemory,
    BundleLoads,
    ClusterMemory,
    ClusterView,
    Decision,
    Figures,
    Memory,
    Resource,
    Skip,
    Traffic,
)
from strategies.placement.contract import Averages, Candidate, Request
from strategies.placement.destinations import DestinationRules, Destinations, DestinationSettings
from strategies.placement.registry import PLACERS, placer
from strategies.settings import Mode
from strategies.usage import weighted_usage
from tests.unit.placement_builders import WEIGHTS, policy

NAMES = ["a1:1", "a2:1", "b1:1", "b2:1", "c1:1", "c2:1"]
NAMESPACES = ["t/x", "t/y", "t/z", "ü/v"]
BUNDLES = [f"{namespace}/0x{k}0000000_0x{k + 1}0000000" for namespace in NAMESPACES for k in range(6)]
EXAMPLES = pytest.mark.parametrize("examples", [500, pytest.param(10_000, marks=pytest.mark.slow)])

FIGURES = (0.0, 0.0, 1.0, 50.0, 50.0, 1e3, 123_456.7, 1e9)
PERCENTS = (0.0, 10.0, 10.5, 30.0, 50.0, 50.0, 84.9, 85.0, 90.0, 250.0)
NONSENSE = (*FIGURES, nan, inf, -inf, -1.0, 1e300)
MODES: tuple[Mode, ...] = ("fixed", "parity")


def search(examples: int, holds: Callable[..., None], *args: st.SearchStrategy[object], **kwargs: st.SearchStrategy[object]) -> None:
    """Looks for a counterexample among this many examples."""
    quiet = settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    quiet(given(*args, **kwargs)(holds))()


def table_of(names: list[str], rows: list[list[float]], topics: int) -> BundleLoads:
    columns, ones = np.array(rows, dtype=np.float64).reshape(len(names), 4), np.ones(len(names), dtype=np.int64)
    return BundleLoads(tuple(names), columns, columns, ones, ones, topics * ones, ones, columns)


@dataclass(frozen=True)
class Story:
    """A cluster, its policies, what shedding decided, and who remembers what."""

    view: ClusterView
    policies: PoliciesView
    decisions: list[Decision]
    memory: Memory
    filters: FilterSettings


def cluster(chance: random.Random) -> ClusterView:
    """Up to six brokers that serve some of the bundles."""
    names, dealt, brokers = chance.sample(NAMES, chance.randint(1, 6)), chance.sample(BUNDLES, len(BUNDLES)), []
    share = len(dealt) // len(names)
    for position, name in enumerate(names):
        owned = dealt[position * share : position * share + chance.randint(0, share)]
        table = table_of(owned, [chance.choices(FIGURES, k=4) for _ in owned], chance.randint(0, 3))
        figures = Figures(cpu=Resource(chance.choice(PERCENTS), 100.0), traffic=total(table), bundle_count=len(owned))
        brokers.append(BrokerLoad(name, figures, lambda_of(table), chance.random() < 0.5, chance.random() < 0.3))
    return ClusterView("c", 0, tuple(brokers))


def total(table: BundleLoads) -> Traffic:
    return Traffic(*(fsum(column) for column in table.short.T.tolist()))


def lambda_of(table: BundleLoads) -> Callable[[], BundleLoads]:
    return lambda: table


some_policies = st.builds(
    PoliciesView,
    isolation=st.lists(
        st.builds(
            lambda namespace, primary, secondary, limit: isolation_policy("p", policy("p", [namespace], [primary], [secondary], limit)),
            st.sampled_from(["t/x", "t/.*", "none"]),
            st.sampled_from(["a.", "a1", "b.", ".*"]),
            st.sampled_from(["b.", "c1", ".*"]),
            st.integers(0, 3),
        ),
        max_size=2,
    ).map(tuple),
    groups=st.dictionaries(st.sampled_from(NAMESPACES), st.sampled_from(["g", "G", "h"])),
    domains=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["d", "e"])),
    brokers=st.dictionaries(
        st.sampled_from(NAMES),
        st.builds(BrokerFacts, st.sampled_from(["4.2.3", "4.2.4", None]), persistent=st.booleans(), draining=st.booleans()),
    ),
)
some_filters = st.builds(
    FilterSettings,
    st.sampled_from(["modular", "extensible"]),
    max_topics=st.sampled_from([0, 5, 12, 50_000]),
    distribute_evenly=st.booleans(),
    prefer_later_versions=st.booleans(),
    failure_domains=st.booleans(),
)
some_memory = st.builds(
    lambda usages, planned, rotation: Memory(
        {name: BrokerMemory(ewma=usage, placement_ewma=usage) for name, usage in usages.items()},
        ClusterMemory(planned=planned, rotation=tuple(rotation), turn=len(rotation)),
    ),
    st.dictionaries(st.sampled_from(NAMES), st.floats(0, 2)),
    st.dictionaries(st.sampled_from(BUNDLES), st.sampled_from(NAMES)),
    st.lists(st.sampled_from(NAMES), unique=True),
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    chance = random.Random(draw(st.integers(0, 2**32)))
    view = cluster(chance)
    names, owned = [one.broker for one in view.brokers], [(name, one.broker) for one in view.brokers for name in one.bundles.names]
    leaving = chance.sample(owned, min(len(owned), chance.randint(0, 6)))
    wishes = [(bundle, source, chance.choice([None, *names])) for bundle, source in leaving]
    decisions = [Decision(bundle, source, None if wish == source else wish, "code", "text") for bundle, source, wish in wishes]
    return Story(view, draw(some_policies), decisions, draw(some_memory), draw(some_filters))


def answers(story: Story, placement: str, mode: Mode) -> list[Decision | Skip]:
    rules = DestinationRules(placer(placement, None, mode), Filters(story.filters, mode), DestinationSettings(), WEIGHTS)
    round_ = Destinations(story.view, 3, rules, policies=story.policies, memory=story.memory)
    return [round_.name(decision) for decision in story.decisions]


def isolated_by_the_book(story: Story, bundle: str, broker: str, mode: Mode) -> bool:
    """Whether isolation lets the bundle on the broker, told once more and naively.

    Java's extensible load manager counts only those primaries that its other filters left over.
    """
    last = mode == "parity" and story.filters.load_manager == "extensible"
    live = [one.broker.rpartition(":")[0] for one in story.view.brokers]
    host, namespace = broker.rpartition(":")[0], namespace_of(bundle)

    def fits(patterns: tuple[re.Pattern[str], ...], text: str) -> bool:
        return any(pattern.fullmatch(text) for pattern in patterns)

    for one in story.policies.isolation:
        if fits(one.namespaces, namespace):
            standby = sum(fits(one.primary, other) for other in live) < one.min_limit
            return fits(one.primary, host) or ((standby or last) and fits(one.secondary, host))
    serves = story.policies.brokers.get(broker, BrokerFacts()).persistent
    return serves and not any(fits(one.primary, host) for one in story.policies.isolation)


def moved(story: Story, placement: str, mode: Mode) -> list[tuple[Decision, str]]:
    return [(one, one.destination) for one in answers(story, placement, mode) if isinstance(one, Decision) and one.destination is not None]


@EXAMPLES
def test_nothing_goes_where_isolation_forbids(examples: int) -> None:
    def holds(story: Story, placement: str, mode: Mode) -> None:
        for decision, destination in moved(story, placement, mode):
            assert isolated_by_the_book(story, decision.bundle, destination, mode)
            assert destination != decision.source

    search(examples, holds, stories(), st.sampled_from(list(PLACERS)), st.sampled_from(MODES))


@EXAMPLES
def test_nothing_goes_to_a_broker_that_filters_exclude(examples: int) -> None:
    def holds(story: Story, placement: str) -> None:
        count = _Count(story)
        for decision, destination in moved(story, placement, "fixed"):
            count.check(decision, destination)

    search(examples, holds, stories(), st.sampled_from(list(PLACERS)))


class _Count:
    """What every broker serves, counted once more and naively while bundles move."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.brokers = {broker.broker: broker for broker in story.view.brokers}
        self.topics = {name: int(broker.bundles.topics.sum()) for name, broker in self.brokers.items()}
        self.served = {name: Counter(map(namespace_of, broker.bundles.names)) for name, broker in self.brokers.items()}

    def check(self, decision: Decision, destination: str) -> None:
        facts, rules = self.story.policies.brokers.get(destination, BrokerFacts()), self.story.filters
        namespace, table = namespace_of(decision.bundle), self.brokers[decision.source].bundles
        assert not self.brokers[destination].settling
        assert not facts.draining
        before, fewest = self.served[decision.source][namespace], min(served[namespace] for served in self.served.values())
        group = self.of_group(decision.source, namespace)
        self.topics[destination] += int(table.topics[table.names.index(decision.bundle)])
        self.served[destination][namespace] += 1
        assert self.topics[destination] <= rules.max_topics
        assert self.of_group(destination, namespace) <= group
        if rules.load_manager == "modular" and rules.distribute_evenly and self.served[destination][namespace] > before:
            # Nobody who may take it serves fewer; who may not is for other tests.
            assert self.served[destination][namespace] > fewest
        self.served[decision.source][namespace] -= 1

    def of_group(self, broker: str, namespace: str) -> int:
        """How many namespaces of the anti-affinity group the broker serves."""
        groups = {other: name.lower() for other, name in self.story.policies.groups.items()}
        if namespace not in groups:
            return 0
        return sum(count > 0 for other, count in self.served[broker].items() if groups.get(other) == groups[namespace])


@EXAMPLES
def test_the_order_of_brokers_and_bundles_changes_nothing(examples: int) -> None:
    def holds(story: Story, placement: str, seed: int) -> None:
        assert answers(story, placement, "fixed") == answers(replace(story, view=shuffled(story.view, seed)), placement, "fixed")

    search(examples, holds, stories(), st.sampled_from(list(PLACERS)), st.integers(0, 99))


@EXAMPLES
def test_no_placement_raises_and_every_choice_is_one_of_the_best(examples: int) -> None:
    def holds(request: Request, memory: Memory, placement: str, mode: Mode) -> None:
        rule = placer(placement, None, mode)
        known = {name: one for name, one in request.candidates.items() if one is not None}
        answer = rule.place(request, rule.open_round(known, memory))
        assert set(answer.best) <= set(request.candidates)
        assert (answer.chosen is None) == (not answer.best)
        assert answer.chosen is None or answer.chosen in answer.best
        assert answer.text

    search(examples, holds, requests(), some_memory, st.sampled_from(list(PLACERS)), st.sampled_from(MODES))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A look-up with any figures whatsoever."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    names = chance.sample(NAMES, chance.randint(0, 5))
    row = (chance.choice(NONSENSE), chance.choice(NONSENSE), 0.0, 0.0)
    candidates = {name: any_candidate(name, chance, Averages(row, row)) for name in names}
    return Request("t/x/0x0_0x1", Averages(row, row), candidates, str(chance.random()))


def any_candidate(name: str, chance: random.Random, averages: Averages) -> Candidate | None:
    if chance.random() < 0.1:
        return None
    table = table_of(["x"], [chance.choices(NONSENSE, k=4)], 1)
    figures = Figures(
        cpu=Resource(chance.choice(NONSENSE), 100.0), traffic=Traffic(chance.choice(NONSENSE)), bundle_count=chance.randint(0, 1)
    )
    usage = weighted_usage(figures, WEIGHTS)
    load = BrokerLoad(name, figures, lambda_of(table), chance.random() < 0.5)
    return Candidate(load, usage, chance.choice([usage, usage, *NONSENSE]), {"y": averages} if chance.random() < 0.5 else {})


def shuffled(view: ClusterView, seed: int) -> ClusterView:
    """The same cluster, brokers and the rows of every table in another order."""
    chance = random.Random(seed)

    def mixed(broker: BrokerLoad) -> BrokerLoad:
        table, rows = broker.bundles, list(range(len(broker.bundles.names)))
        chance.shuffle(rows)
        columns = [
            getattr(table, name)[rows] for name in ("short", "long", "short_samples", "long_samples", "topics", "sessions", "current")
        ]
        other = BundleLoads(tuple(table.names[row] for row in rows), *columns)
        return replace(broker, load_bundles=lambda: other)

    found = [mixed(broker) for broker in view.brokers]
    chance.shuffle(found)
    return replace(view, brokers=tuple(found))
