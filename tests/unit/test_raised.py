"""A rule that raises sets aside the record or the round that it belongs to, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from strategies.engine import Engine, EngineSettings
from strategies.errors import StateVersionError
from strategies.model import Rejection, Round, Skip, TelemetryRecord
from strategies.raised import RecordChanges, check_plain, raised_text
from strategies.store import BrokerState, InMemoryStore, StateStore
from streaming.state.cluster_bytes import to_bytes
from tests.raising_strategy import WITH_RAISING, RaisingSettings
from tests.unit.little_cluster import LittleCluster
from tests.unit.telemetry_builders import T0, fold_all, report, sweep

BROKERS = {"a:1": {"t/n/0x00000000_0x80000000": 40.0, "t/n/0x80000000_0xffffffff": 40.0}, "b:1": {}}
MINUTE = 60_000


def raising(cluster: str, minutes: int) -> EngineSettings:
    settings = RaisingSettings(
        threshold_percent=1,
        min_throughput_mib=0,
        raises_for=cluster,
        until_ms=T0 + minutes * MINUTE,
    )
    return EngineSettings("raising", shedding=settings, shedders=WITH_RAISING)


def rounds_of(cluster: str, minutes: int) -> list[Round]:
    made = LittleCluster({name: dict(some) for name, some in BROKERS.items()}, raising(cluster, 5))
    return [made.passes() for _ in range(minutes)]


def test_a_round_whose_rule_raises_says_so_and_the_next_ones_try_again() -> None:
    rounds = rounds_of("c", 8)
    assert [one.round for one in rounds] == list(range(1, 9))
    states = [one.state.code for one in rounds if one.state is not None]
    assert states[:4] == ["set-aside"] * 4
    assert "set-aside" not in states[4:]
    assert states[4] == "acting"

    first = rounds[0]
    assert (first.commands, first.usage) == ((), {})
    assert first.state is not None
    assert first.state.text == (
        "no rule could judge the cluster: a rule failed: ZeroDivisionError in "
        "tests.raising_strategy, line 35: <object object at …> is no figure [rule-raised]"
    )
    assert "Each round tries again" in first.state.advice


class Broken(InMemoryStore):
    """Raises when a broker's table is stored, after other changes of its report."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error: Exception | None = error

    def get_table(self, broker: str) -> bytes | None:
        if broker == "torn:1" and self.error is not None:
            raise self.error
        return super().get_table(broker)


def two_reports(broker: str) -> list[TelemetryRecord]:
    """The second one loses a bundle, so that the rules read the broker's table."""
    names = list(BROKERS["a:1"])
    return [
        report(broker, 1, 50, dict.fromkeys(names, 40.0)),
        sweep(2, broker),
        report(broker, 3, 50, {names[0]: 40.0}),
    ]


def test_a_record_for_which_a_rule_raises_is_rejected_and_changes_nothing() -> None:
    engine, store = Engine(EngineSettings()), Broken(KeyError("odd"))
    *first, second = two_reports("torn:1")
    fold_all(engine, first, store)
    before = to_bytes(store.get_cluster()), store.get_broker("torn:1")
    (rejection,) = fold_all(engine, [second], store)
    assert isinstance(rejection, Rejection)
    assert rejection.code == "rule-raised"
    assert re.fullmatch(r"KeyError in tests\.unit\.test_raised, line \d+: 'odd'", rejection.text)
    assert (to_bytes(store.get_cluster()), store.get_broker("torn:1")) == before
    store.error = None
    (done,) = fold_all(engine, [sweep(60, "torn:1", "a:1")], store)
    assert isinstance(done, Round), "the records after it count"


def test_errors_of_the_stored_state_are_no_rejections() -> None:
    with pytest.raises(StateVersionError):
        fold_all(Engine(EngineSettings()), two_reports("torn:1"), Broken(StateVersionError("torn")))


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (MemoryError(), "MemoryError in tests.unit.test_raised, line"),
        (Mute(), "Mute in tests.unit.test_raised, line"),
        (KeyError(frozenset({"alpha", "beta"})), "KeyError in tests.unit.test_raised, line"),
    ],
)
def test_every_error_of_a_rule_has_a_text_that_is_the_same_everywhere(
    error: Exception, text: str
) -> None:
    *_, rejection = fold_all(Engine(EngineSettings()), two_reports("torn:1"), Broken(error))
    assert isinstance(rejection, Rejection)
    assert rejection.text.startswith(text)
    assert ":" not in rejection.text.removeprefix(text)


@pytest.mark.parametrize("evidence", [{"odd": float("nan")}, {"odd": [1]}, {1: "odd"}])
def test_evidence_that_no_record_can_have_sets_the_round_aside(evidence: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="evidence"):
        check_plain((), [Skip("cluster", ("c",), "even", "all is even", evidence=evidence)])


Change = Callable[[StateStore], None]


def removes(store: StateStore) -> None:
    store.remove_broker("a:1")


def begins_again(store: StateStore) -> None:
    store.remove_broker("a:1")
    store.put_broker(a_broker("a:1"))


def adds(store: StateStore) -> None:
    store.put_broker(a_broker("b:1"))
    store.put_table("b:1", b"new")


def adds_and_removes(store: StateStore) -> None:
    adds(store)
    store.remove_broker("b:1")


def writes(store: StateStore) -> None:
    store.put_table("a:1", b"new")
    store.put_owned("a:1", b"new")


def forgets(store: StateStore) -> None:
    store.remove_owned("a:1")


def a_broker(name: str) -> BrokerState:
    store = InMemoryStore()
    fold_all(Engine(EngineSettings()), [report(name, 1), sweep(2, name)], store)
    (found,) = store.brokers()
    return found


def filled() -> InMemoryStore:
    store = InMemoryStore()
    store.put_broker(a_broker("a:1"))
    store.put_table("a:1", b"old")
    store.put_owned("a:1", b"old")
    return store


def seen(store: StateStore) -> object:
    names = ("a:1", "b:1")
    return (
        sorted(one.broker for one in store.brokers()),
        [(store.get_broker(name), store.get_table(name), store.get_owned(name)) for name in names],
    )


@pytest.mark.parametrize("change", [removes, begins_again, adds, adds_and_removes, writes, forgets])
def test_a_view_reads_as_the_store_would_after_the_same_changes(change: Change) -> None:
    plain, below = filled(), filled()
    change(plain)
    view = RecordChanges(below)
    change(view)
    assert seen(view) == seen(plain)
    assert seen(below) == seen(filled()), "nothing changes before the end"
    view.apply()
    assert seen(below) == seen(plain)


def test_the_text_of_an_error_is_the_same_in_every_process() -> None:
    with pytest.raises(ValueError, match="object") as raised:
        raise ValueError(f"{object()!r}\n and  more {'x' * 999}")
    text = raised_text(raised.value)
    assert text.startswith("ValueError in tests.unit.test_raised, line ")
    assert "<object object at …> and more xx" in text
    assert len(text) < 400
