"""A rule that raises sets aside its record or round, and nothing else; its cause is logged once."""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from sinks.wire.event_to_topic_rows import event_row
from sinks.wire.record_decoding import decode_round
from strategies.cluster.cluster_state import BrokerState, InMemoryStore, StateStore, note_name
from strategies.cluster.model import ClusterView, Decision, Rejection, Round, Skip, TelemetryRecord
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.cluster.store_changes import StoreChanges
from strategies.cluster.strategy_memory import BrokerMemory, ClusterMemory, Memory
from strategies.errors import StateVersionError
from strategies.fold.engine import Engine, EngineSettings
from strategies.fold.rule_errors import raised_text
from strategies.settings import Weights
from strategies.shedding.contract import Shedding
from strategies.shedding.registry import SHEDDERS
from streaming.state.state_to_bytes import to_bytes
from streaming.state.store import StoreCache
from streaming.worker_process import log_once
from tests.raising_strategy import RAISING, WITH_RAISING, RaisingSettings
from tests.spark.state_variables import Spark
from tests.world.little_cluster import LittleCluster
from tests.world.telemetry import T0, bundle, fold_all, report, sweep

BROKERS = {"a:1": {"t/n/0x00000000_0x80000000": 40.0, "t/n/0x80000000_0xffffffff": 40.0}, "b:1": {}}
MINUTE = 60_000


def raising(cluster: str, minutes: int) -> EngineSettings:
    until_ms = T0 + minutes * MINUTE
    settings = RaisingSettings(1, min_throughput_mib=0, raises_for=cluster, until_ms=until_ms)
    return EngineSettings("raising", shedding=settings, shedders=WITH_RAISING)


def test_a_round_whose_rule_raises_says_so_and_the_next_ones_try_again() -> None:
    """Its cause is told once, however many rounds it ends."""
    causes: dict[str, Exception] = {}
    settings = raising("c", 5)
    made = LittleCluster({name: dict(some) for name, some in BROKERS.items()}, settings)
    made.engine = Engine(settings, causes.__setitem__)
    rounds = [made.passes() for _ in range(8)]
    assert [one.round for one in rounds] == list(range(1, 9))
    states = [one.state.code for one in rounds if one.state is not None]
    assert states[:4] == ["set-aside"] * 4
    assert "set-aside" not in states[4:]
    assert states[4] == "acting"

    first = rounds[0]
    assert (first.commands, first.usage) == ((), {})
    assert first.state is not None
    failed = "a rule failed: ZeroDivisionError in tests.raising_strategy, line 33: <object object"
    assert first.state.text.startswith(f"no rule could judge the cluster: {failed} at …> is no fig")
    assert first.state.text.endswith(" [rule-raised]")
    assert "Each round tries again" in first.state.advice
    assert all("Traceback" not in skip.text for one in rounds for skip in one.skips)
    ((cause, error),) = causes.items()
    assert cause.startswith("ZeroDivisionError in tests.raising_strategy, line 33")
    assert isinstance(error, ZeroDivisionError)


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
    both, one = (
        report(broker, at, 50, dict.fromkeys(names[:n], 40.0)) for at, n in ((1, 2), (3, 1))
    )
    return [both, sweep(2, broker), one]


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


@pytest.mark.parametrize("error", [MemoryError(), Mute(), KeyError(frozenset({"alpha", "beta"}))])
def test_every_error_of_a_rule_has_a_text_that_is_the_same_everywhere(error: Exception) -> None:
    *_, rejection = fold_all(Engine(EngineSettings()), two_reports("torn:1"), Broken(error))
    assert isinstance(rejection, Rejection)
    text = f"{type(error).__name__} in tests.unit.test_raised, line"
    assert rejection.text.startswith(text)
    assert ":" not in rejection.text.removeprefix(text)


def a_skip(**parts: Any) -> Skip:
    return replace(Skip("cluster", ("c",), "even", "all is even"), **parts)


def a_move(name: str = bundle(0), **parts: Any) -> Decision:
    return Decision(name, "a:1", "b:1", "odd", "moves", **parts)


A_FLOAT, A_NAME = np.float64(0.5), np.str_("a:1")
A_COUNT: Any = np.int64(3)
#: What a strategy may get from numpy, or by a division, and where it may put it.
ODD: dict[str, dict[str, Any]] = {
    "evidence": {"skips": (a_skip(evidence={"odd": A_FLOAT}),)},
    "evidence that is not finite": {"skips": (a_skip(evidence={"odd": float("nan")}),)},
    "evidence in a list": {"skips": (a_skip(evidence={"odd": [1]}),)},
    "names of evidence": {"skips": (a_skip(evidence={1: "odd"}),)},
    "text": {"skips": (a_skip(text=A_NAME),)},
    "names of a skip": {"skips": (a_skip(names=(A_NAME,)),)},
    "bundle": {"decisions": (a_move(np.str_(bundle(0))),)},
    "prediction of a move": {"decisions": (a_move(forecast=(A_FLOAT, A_FLOAT)),)},
    "average": {"memory": Memory({"a:1": BrokerMemory(ewma=A_FLOAT)})},
    "hits": {"memory": Memory({"a:1": BrokerMemory(hit_high=A_COUNT)})},
    "hits that are no integer": {"memory": Memory({"a:1": BrokerMemory(hit_low=2.0)})},  # type: ignore[arg-type]
    "counts": {"memory": Memory(cluster=ClusterMemory(hits=A_COUNT))},
    "plan": {"memory": Memory(cluster=ClusterMemory(planned={"t/n/0x0_0x1": A_NAME}))},
    "bounds": {"certify": lambda _: Certificate(A_FLOAT, None, 0.0, None)},
    "infinite bounds": {"certify": lambda _: Certificate(float("inf"), None, 0.0, None)},
    "forecast": {"forecast": Forecast(A_FLOAT)},
    "counts of a forecast": {"forecast": Forecast(useless_rounds=1.0)},  # type: ignore[arg-type]
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_what_no_record_and_no_state_can_have_sets_the_round_aside(odd: dict[str, Any]) -> None:
    """A topic and the state take plain values only: the job would end where they are encoded."""
    strategy = replace(RAISING, name="odd", fixed=partial(Gives, odd))
    settings = EngineSettings("odd", shedders=SHEDDERS.extended(strategy))
    spark, worker = Spark(), StoreCache(2**20)
    shard = worker.open(0, spark.rows())
    cluster = shard.cluster("c")
    reports = [report("a:1", 0), report("b:1", 1, bundles={})]
    a_pass: list[TelemetryRecord] = [*reports, sweep(2, "a:1", "b:1")]
    *_, row = map(event_row, fold_all(Engine(settings), a_pass, cluster))
    shard.flush(spark.rows())
    state = decode_round(row.value).state
    assert state is not None
    assert state.code == "set-aside"


@dataclass(frozen=True)
class Gives:
    parts: dict[str, Any]
    settings: object
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        skip = Skip("cluster", (view.cluster,), "even", "all is even")
        return replace(Shedding((), (skip,), memory), **self.parts)


def a_broker(name: str) -> BrokerState:
    store = InMemoryStore()
    fold_all(Engine(EngineSettings()), [report(name, 1), sweep(2, name)], store)
    (found,) = store.brokers()
    return found


def filled() -> InMemoryStore:
    store = InMemoryStore()
    store.put_broker(a_broker("a:1"))
    store.put_table("a:1", b"old")
    store.put_table(note_name("a:1"), b"old")
    return store


def seen(store: StateStore) -> object:
    return sorted(one.broker for one in store.brokers()), [
        (store.get_broker(name), store.get_table(name), store.get_table(note_name(name)))
        for name in ("a:1", "b:1")
    ]


#: Calls of a store.
CHANGES: dict[str, list[tuple[Any, ...]]] = {
    "removes": [("remove_broker", "a:1")],
    "begins again": [("remove_broker", "a:1"), ("put_broker", a_broker("a:1"))],
    "adds": [("put_broker", a_broker("b:1")), ("put_table", "b:1", b"new")],
    "adds and removes": [("put_broker", a_broker("b:1")), ("remove_broker", "b:1")],
    "writes": [("put_table", "a:1", b"new"), ("put_table", note_name("a:1"), b"new")],
    "forgets": [("remove_table", note_name("a:1"))],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_view_reads_as_the_store_would_after_the_same_changes(
    change: list[tuple[Any, ...]],
) -> None:
    plain, below = filled(), filled()
    view = StoreChanges(below)
    for name, *given in change:
        getattr(plain, name)(*given)
        getattr(view, name)(*given)
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


def test_a_cause_is_written_once_and_the_memory_of_causes_is_bounded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers = (*range(1_001), 1_000, 0)
    for number in numbers:
        log_once(f"cause {number}", ValueError(number))
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("a rule raised: cause 1000") == 1
    assert lines.count("a rule raised: cause 0") == 2
    assert lines.count("ValueError: 1000") == 1
