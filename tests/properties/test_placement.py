"""What must hold of every placement and of every round of destinations, whatever the cluster."""

import random
from collections import Counter
from dataclasses import dataclass
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.bundles import BundleLoads, namespace_of
from strategies.cluster import model
from strategies.cluster.strategy_memory import Memory
from strategies.figures.usage import weighted_usage
from strategies.filters.filter_order_and_settings import Filters, FilterSettings
from strategies.filters.policies import BrokerFacts, PoliciesView, isolation_policy
from strategies.java.regex import JavaPattern
from strategies.placement.contract import (
    Averages,
    Candidate,
    DestinationRules,
    OpensRounds,
    Request,
)
from strategies.placement.destinations import Destinations
from strategies.placement.registry import PLACERS, placer
from strategies.settings import DestinationSettings, Mode
from tests.properties.legal import (
    BROKERS,
    FIGURES,
    NAMESPACES,
    WEIGHTS,
    a_view,
    memories,
    modes,
    seeds,
    sizes,
)
from tests.world.placement import policy

NONSENSE = (*FIGURES, nan, inf, -inf, -1.0, 1e300)


@dataclass(frozen=True)
class Story:
    view: model.ClusterView
    policies: PoliciesView
    decisions: list[model.Decision]
    memory: Memory
    filters: FilterSettings


some_policies = st.builds(
    PoliciesView,
    isolation=st.lists(
        st.builds(
            lambda namespace, primary, secondary, limit: isolation_policy(
                "p", policy("p", [namespace], [primary], [secondary], limit)
            ),
            st.sampled_from(["t/x", "t/.*", "none"]),
            st.sampled_from(["a.", "a1", "b.", ".*"]),
            st.sampled_from(["b.", "c1", ".*"]),
            st.integers(0, 3),
        ),
        max_size=2,
    ).map(tuple),
    groups=st.dictionaries(st.sampled_from(NAMESPACES), st.sampled_from(["g", "G", "h"])),
    domains=st.dictionaries(st.sampled_from(BROKERS), st.sampled_from(["d", "e"])),
    brokers=st.dictionaries(
        st.sampled_from(BROKERS),
        st.builds(
            BrokerFacts,
            st.sampled_from(["4.2.3", "4.2.4", None]),
            persistent=st.booleans(),
            draining=st.booleans(),
        ),
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


@st.composite
def stories(draw: st.DrawFn) -> Story:
    view = a_view(draw(seeds), draw(st.integers(1, 6)), draw(sizes), shared=False)
    chance = random.Random(draw(seeds))
    names, owned = (
        [one.broker for one in view.brokers],
        [(name, one.broker) for one in view.brokers for name in one.bundles.names],
    )
    leaving = chance.sample(owned, min(len(owned), chance.randint(0, 6)))
    wishes = [(bundle, source, chance.choice([None, *names])) for bundle, source in leaving]
    decisions = [
        model.Decision(bundle, source, None if wish == source else wish, "code", "text")
        for bundle, source, wish in wishes
    ]
    return Story(view, draw(some_policies), decisions, draw(memories), draw(some_filters))


def answers(story: Story, placement: str, mode: Mode) -> list[model.Decision | model.Skip]:
    rules = DestinationRules(
        placer(placement, None, mode), Filters(story.filters, mode), DestinationSettings(), WEIGHTS
    )
    round_ = Destinations(story.view, 3, rules, policies=story.policies, memory=story.memory)
    return [round_.name(decision) for decision in story.decisions]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    chance = random.Random(draw(seeds))
    names = chance.sample(BROKERS, chance.randint(0, 5))
    row = (chance.choice(NONSENSE), chance.choice(NONSENSE), 0.0, 0.0)
    candidates = {name: any_candidate(name, chance, Averages(row, row)) for name in names}
    return Request("t/x/0x0_0x1", Averages(row, row), candidates, str(chance.random()))


def any_candidate(name: str, chance: random.Random, averages: Averages) -> Candidate | None:
    if chance.random() < 0.1:
        return None
    table = nonsense(chance)
    figures = model.Figures(
        cpu=model.Resource(chance.choice(NONSENSE), 100.0),
        traffic=model.Traffic(chance.choice(NONSENSE)),
        bundle_count=chance.randint(0, 1),
    )
    usage = weighted_usage(figures, WEIGHTS)
    load = model.BrokerLoad(name, figures, lambda: table, chance.random() < 0.5)
    return Candidate(
        load,
        usage,
        chance.choice([usage, usage, *NONSENSE]),
        {"y": averages} if chance.random() < 0.5 else {},
    )


def nonsense(chance: random.Random) -> BundleLoads:
    row, one = np.array([chance.choices(NONSENSE, k=4)]), np.ones(1, dtype=np.int64)
    return BundleLoads(("x",), row, row, one, one, one, one, row)


placements = st.sampled_from(list(PLACERS))


def isolated_by_the_book(story: Story, bundle: str, broker: str, mode: Mode) -> bool:
    """Whether isolation lets the bundle on the broker, told once more and naively.

    Java's extensible load manager counts only those primaries that its other filters left over.
    """
    last = mode == "parity" and story.filters.load_manager == "extensible"
    live = [one.broker.rpartition(":")[0] for one in story.view.brokers]
    host, namespace = broker.rpartition(":")[0], namespace_of(bundle)

    def fits(patterns: tuple[JavaPattern, ...], text: str) -> bool:
        return any(pattern.matches(text) for pattern in patterns)

    for one in story.policies.isolation:
        if fits(one.namespaces, namespace):
            standby = sum(fits(one.primary, other) for other in live) < one.min_limit
            return fits(one.primary, host) or ((standby or last) and fits(one.secondary, host))
    serves = story.policies.brokers.get(broker, BrokerFacts()).persistent
    return serves and not any(fits(one.primary, host) for one in story.policies.isolation)


def moved(story: Story, placement: str, mode: Mode) -> list[tuple[model.Decision, str]]:
    return [
        (one, one.destination)
        for one in answers(story, placement, mode)
        if isinstance(one, model.Decision) and one.destination is not None
    ]


@pytest.mark.heavy
@given(stories(), placements, modes)
def test_nothing_goes_where_isolation_forbids(story: Story, placement: str, mode: Mode) -> None:
    for decision, destination in moved(story, placement, mode):
        assert isolated_by_the_book(story, decision.bundle, destination, mode)
        assert destination != decision.source


@pytest.mark.heavy
@given(stories(), placements)
def test_nothing_goes_to_a_broker_that_filters_exclude(story: Story, placement: str) -> None:
    count = _Count(story)
    for decision, destination in moved(story, placement, "fixed"):
        count.check(decision, destination)


class _Count:
    """What every broker serves, counted once more and naively while bundles move."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.brokers = {broker.broker: broker for broker in story.view.brokers}
        self.topics = {
            name: int(broker.bundles.topics.sum()) for name, broker in self.brokers.items()
        }
        self.served = {
            name: Counter(map(namespace_of, broker.bundles.names))
            for name, broker in self.brokers.items()
        }

    def check(self, decision: model.Decision, destination: str) -> None:
        facts, rules = (
            self.story.policies.brokers.get(destination, BrokerFacts()),
            self.story.filters,
        )
        namespace, table = namespace_of(decision.bundle), self.brokers[decision.source].bundles
        assert not self.brokers[destination].settling
        assert not facts.draining
        before, fewest = (
            self.served[decision.source][namespace],
            min(served[namespace] for served in self.served.values()),
        )
        group = self.of_group(decision.source, namespace)
        self.topics[destination] += int(table.topics[table.names.index(decision.bundle)])
        self.served[destination][namespace] += 1
        assert self.topics[destination] <= rules.max_topics
        assert self.of_group(destination, namespace) <= group
        if (
            rules.load_manager == "modular"
            and rules.distribute_evenly
            and self.served[destination][namespace] > before
        ):
            # Nobody who may take it serves fewer; who may not is for other tests.
            assert self.served[destination][namespace] > fewest
        self.served[decision.source][namespace] -= 1

    def of_group(self, broker: str, namespace: str) -> int:
        """How many namespaces of the anti-affinity group the broker serves."""
        groups = {other: name.lower() for other, name in self.story.policies.groups.items()}
        if namespace not in groups:
            return 0
        return sum(
            count > 0
            for other, count in self.served[broker].items()
            if groups.get(other) == groups[namespace]
        )


@pytest.mark.parametrize("placement", list(PLACERS))
@given(request=requests(), memory=memories, mode=modes)
def test_no_placement_raises_and_every_choice_is_one_of_the_best(
    placement: str, request: Request, memory: Memory, mode: Mode
) -> None:
    rule = placer(placement, None, mode)
    known = {name: one for name, one in request.candidates.items() if one is not None}
    if isinstance(rule, OpensRounds):
        memory = rule.open_round(known, memory)
    answer = rule.place(request, memory)
    assert set(answer.best) <= set(request.candidates)
    assert (answer.chosen is None) == (not answer.best)
    assert answer.chosen is None or answer.chosen in answer.best
    assert answer.text
