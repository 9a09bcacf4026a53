"""What must hold of SteadyShedder over many rounds of a closed loop, whatever happens to the
cluster.
"""

from collections.abc import Iterator
from dataclasses import astuple, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.uncertified import UNCERTIFIED
from scripts.chaos_rounds import chaos
from strategies.cluster.cluster_state import InMemoryStore, StateStore
from strategies.cluster.model import (
    BundleStats,
    Command,
    Event,
    LoadReport,
    Resource,
    Round,
    TelemetryRecord,
    Traffic,
)
from strategies.fold.engine import Engine, EngineSettings
from strategies.settings import LimitSettings, RoundSettings
from strategies.shedding.steady.settings import SteadySettings
from streaming.state.state_to_bytes import from_bytes, pack, to_bytes, unpack_brokers
from tests.lanes import variant
from tests.properties.costly import costly
from tests.properties.legal import seeds

rounds_ = st.integers(3, 16)
RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out")


def some_settings(seed: int) -> EngineSettings:
    """Settings that nearly always find something to move; cool-downs that are shorter than the
    strategy's rest.
    """
    chance = Random(seed)
    chosen = SteadySettings(
        chance.choice(("tight", "tight", "default", "background")), chance.choice((5.0, 15.0, 60.0))
    )
    limits = LimitSettings(
        moves_per_round=chance.choice((0, 0, 1, 3)), moves_per_hour=chance.choice((0, 0, 8))
    )
    round_ = RoundSettings(cool_down_ms=chance.choice((120_000, 600_000)))
    # Certificates take most of the time of a small round, and have tests of their own.
    return EngineSettings(
        "steady", shedding=chosen, round=round_, limits=limits, shedders=UNCERTIFIED
    )


@pytest.mark.heavy
@given(seed=seeds, rounds=rounds_)
def test_nothing_returns_nothing_rises_and_no_budget_is_exceeded(seed: int, rounds: int) -> None:
    assert chaos(seed, some_settings(seed), rounds, harsh=True).broken == ()


class OtherForm(Engine):
    """Folds the same records in another form; `events`: all there are."""

    def __init__(self, settings: EngineSettings, form: str = "") -> None:
        super().__init__(settings)
        self.form, self.events, self._held = form, list[Event](), list[LoadReport]()

    def fold(self, record: TelemetryRecord, store: StateStore) -> list[Event]:
        if isinstance(record, LoadReport) and self.form == "order":
            self._held.append(turned(record))
            return []
        reports = sorted(self._held, key=lambda one: one.broker[::-1], reverse=True)
        self._held = []
        if isinstance(record, LoadReport) and self.form == "twice the capacity and the load":
            record = doubled(record)
        events = [
            event for one in (*reports, record) for event in super(OtherForm, self).fold(one, store)
        ]
        self.events += events
        if self.form == "encoding":
            assert isinstance(store, InMemoryStore)
            reopened(store)
        return events

    @property
    def commands(self) -> list[Event]:
        return [event for event in self.events if isinstance(event, Command)]

    @property
    def decided(self) -> list[tuple[str, ...]]:
        """The moves and the skips of each round as people read them."""
        return [told for event in self.events for told in said(event)]


def said(event: Event) -> Iterator[tuple[str, ...]]:
    if isinstance(event, Command) and event.is_move:
        yield event.bundle, event.source, str(event.destination), event.code, event.text
    elif isinstance(event, Round):
        yield from ((*one.names, one.code, one.text) for one in event.skips)


def doubled(report: LoadReport) -> LoadReport:
    figures, bundles = report.figures, report.bundles
    assert figures is not None
    assert bundles is not None
    resources: dict[str, Any] = {
        name: Resource(2 * one.usage, 2 * one.limit)
        for name, one in ((each, getattr(figures, each)) for each in RESOURCES)
    }
    traffic = Traffic(*(2 * one for one in astuple(figures.traffic)))
    return replace(
        report,
        figures=replace(figures, **resources, traffic=traffic),
        bundles=replace(bundles, traffic=2 * bundles.traffic),
    )


def turned(report: LoadReport) -> LoadReport:
    bundles = report.bundles
    assert bundles is not None
    return replace(
        report,
        bundles=BundleStats(
            bundles.names[::-1], bundles.traffic[::-1], bundles.topics[::-1], bundles.sessions[::-1]
        ),
    )


def reopened(store: InMemoryStore) -> InMemoryStore:
    """The store, with the state as Spark stores and reads it."""
    packed = pack({"c": {one.broker: one for one in store.brokers()}})
    for broker in unpack_brokers(packed)["c"].values():
        assert broker is not None
        store.put_broker(broker)
    store.put_cluster(from_bytes(to_bytes(store.get_cluster())))
    return store


@pytest.mark.heavy
@costly
@pytest.mark.parametrize(
    "form", ["order", variant("twice the capacity and the load"), variant("encoding")]
)
@given(seed=seeds, rounds=rounds_)
def test_order_scale_and_encoding_of_the_state_change_nothing(
    form: str, seed: int, rounds: int
) -> None:
    settings = some_settings(seed)
    one, other = OtherForm(settings), OtherForm(settings, form)
    chaos(seed, settings, rounds, engine_of=lambda _: one)
    chaos(seed, settings, rounds, engine_of=lambda _: other)
    assert one.decided == other.decided
    assert form != "encoding" or one.commands == other.commands
