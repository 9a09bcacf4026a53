"""The worked examples of placement and filters in docs/STRATEGIES.md are what the code answers."""

import pytest

from strategies.cluster.strategy_memory import ClusterMemory, Memory
from strategies.filters.anti_affinity import anti_affine
from strategies.filters.broker_filters import (
    no_less_even,
    no_room_for,
    too_many_topics,
    topics_at_limit,
    uneven,
)
from strategies.filters.filter_input_and_result import FilteredBundle
from strategies.filters.isolation import isolated
from strategies.filters.policies import BrokerFacts
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from strategies.placement.avg import key_of
from strategies.placement.registry import placer
from strategies.settings import Mode
from strategies.states_and_advice_of_codes import Refusals
from tests.unit.strategies_page import example, numbers
from tests.world.placement import (
    bundle_of,
    candidate,
    filters,
    fleet,
    placed,
    policies,
    policy,
    request,
)

MODES = pytest.mark.parametrize(("mode", "column"), [("parity", -2), ("fixed", -1)])


def left(brokers: list[str], refused: Refusals) -> list[str]:
    return ["–" if broker in refused else "yes" for broker in brokers]


def column(rows: list[list[str]], index: int) -> list[str]:
    return [row[index] for row in rows]


@MODES
def test_least_long_term_rate(mode: Mode, column: int) -> None:
    rows = example("least_long_term_rate")
    figures = [[numbers(cell)[0] for cell in row[1:4]] for row in rows]
    brokers = [
        candidate(row[0], usage, rate, arriving={"x": bundle_of(coming)})
        for row, (usage, rate, coming) in zip(rows, figures, strict=True)
    ]
    best = placed(placer("least_long_term_rate", None, mode), *brokers).best
    assert ["yes" if row[0] in best else "–" for row in rows] == [row[column] for row in rows]


@MODES
def test_least_resource_usage(mode: Mode, column: int) -> None:
    for row in example("least_resource_usage"):
        brokers = [
            candidate(f"b{number}", usage) for number, usage in enumerate(numbers(row[0]), start=1)
        ]
        answer = placed(placer("least_resource_usage", None, mode), *brokers)
        assert ", ".join(answer.best) == row[column]
        assert f"{100 * float(str(answer.evidence['mean'])):.1f} %" == row[1]


@pytest.mark.parametrize(("limit", "index"), [(1, 2), (2, 3)])
def test_isolation(limit: int, index: int) -> None:
    rows = example("isolation")
    refused = isolated(
        policies(policy("p", ["t/ns"], ["p1", "p2"], ["s1"], limit)), "t/ns", column(rows, 0)
    )
    answers = [refused[row[0]].code if row[0] in refused else "yes" for row in rows]
    assert answers == column(rows, index)


def test_anti_affinity() -> None:
    rows = example("anti_affinity")
    brokers, domains = column(rows, 0), {row[0]: row[1] for row in rows}
    counts = {row[0]: int(row[2]) for row in rows}
    assert left(brokers, anti_affine(brokers, counts, None)) == column(rows, 3)
    assert left(brokers, anti_affine(brokers, counts, domains)) == column(rows, 4)


def test_even_distribution() -> None:
    rows = example("even_distribution")
    names = [row[0].split()[0] for row in rows]
    counts = {name: int(row[1]) for name, row in zip(names, rows, strict=True)}
    assert left(names, uneven(names, counts)) == column(rows, 2)
    assert left(names[1:], no_less_even(names[1:], counts, "b1")) == column(rows, 3)[1:]


def test_topic_count() -> None:
    rows = example("topic_count")
    brokers, topics = column(rows, 0), {row[0]: int(row[1].replace(",", "")) for row in rows}
    assert left(brokers, too_many_topics(brokers, topics, {}, 50_000)) == column(rows, 2)
    assert left(brokers, topics_at_limit(brokers, topics, 50_000)) == column(rows, 3)
    assert left(brokers, no_room_for(brokers, topics, 1, 50_000)) == column(rows, 4)


@MODES
def test_round_robin(mode: Mode, column: int) -> None:
    memory = Memory()
    for row in example("round_robin"):
        candidates = [candidate(name, 10) for name in row[1].split(", ")]
        answer = placed(placer("round_robin", None, mode), *candidates, memory=memory)
        memory = answer.memory
        assert answer.chosen == row[column]


@pytest.mark.parametrize(
    ("mode", "release", "column"),
    [("parity", "4.2", 3), ("parity", "5.0", 2), ("fixed", "4.2", -1)],
)
def test_avg_placement(mode: Mode, release: PulsarRelease, column: int) -> None:
    for row in example("avg_placement"):
        candidates = [
            candidate(f"b{number}", usage) for number, usage in enumerate(numbers(row[0]), start=1)
        ]
        asked = request(*candidates, bundle="t/ns/x")
        key = "t/ns/x" if mode == "fixed" else key_of(asked.averages)
        planned = {} if row[1] == "–" else {key: row[1]}
        plan = {} if row[1] == "–" else {"t/ns/x": ("b9", row[1])}
        memory = Memory(cluster=ClusterMemory(planned=planned), plan=plan)
        answer = placer("avg", None, mode, release).place(asked, memory)
        assert ", ".join(answer.best) == row[column]


@pytest.mark.parametrize("load_manager", ["modular", "extensible"])
@MODES
def test_versions(mode: Mode, column: int, load_manager: str) -> None:
    names = ["b1:1", "b2:1", "b3:1"]
    for row in example("versions"):
        facts = [BrokerFacts(None if version == "unknown" else version) for version in row]
        known = dict(zip(names, facts, strict=False))
        rule = filters(mode, load_manager=load_manager, prefer_later_versions=True)
        allowed = rule.allowed(
            FilteredBundle("t/ns/0x0_0x1", None), names, fleet(policies(brokers=known))
        )
        assert ", ".join(name.removesuffix(":1") for name in allowed.brokers) == row[column]
