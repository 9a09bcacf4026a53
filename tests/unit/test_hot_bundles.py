"""Hot bundles whose topics are known: where they are cut, and what rounds say about them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sinks.wire.record_decoding import decode
from strategies.bundles import KeyRange
from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, TelemetryRecord
from strategies.cluster.topics_of_bundle import TopicLoad, TopicsOfBundle
from strategies.dispatch_limits.hot_topic_text import hot_topic_text
from strategies.fold.engine import Engine, EngineSettings
from strategies.splitting.bundle_limits import Algorithm, SplitSettings
from strategies.splitting.cut_by_traffic import cut_at, even_cut
from tests.world.little_cluster import LittleCluster
from tests.world.splits import topic_of
from tests.world.telemetry import MIB, T0, bundle, commands, fold_all, report, sweep

RANGE = KeyRange(0, 0x1000)
BUNDLE = "t/ns/0x00000000_0x00001000"
FLOW: Algorithm = "flow_or_qps_equally_divide"


def known(topics: dict[int, float], seconds: float = 0, **given: Any) -> TopicsOfBundle:
    """Topics by hash, with their MiB/s; a message has 1 KiB."""
    loads = sorted(
        (TopicLoad(topic_of(hash_), mib * 1024, mib * MIB) for hash_, mib in topics.items()),
        key=lambda one: -one.throughput,
    )
    return TopicsOfBundle("c", "a:1", T0 + int(1000 * seconds), BUNDLE, tuple(loads), **given)


@pytest.mark.parametrize(
    ("topics", "boundary", "lower"),
    [
        ({0x100: 50, 0x300: 50}, 0x201, 0.5),
        ({0x100: 50, 0x102: 50}, 0x102, 0.5),
        ({0x100: 10, 0x200: 60, 0x300: 10, 0x400: 20}, 0x281, 0.7),
        ({0x100: 6, 0x200: 90, 0x300: 4}, 0x181, 0.06),
    ],
)
def test_a_bundle_is_cut_into_the_most_equal_parts(
    topics: dict[int, float], boundary: int, lower: float
) -> None:
    cut = even_cut(known(topics), RANGE, by_messages=False)
    assert cut is not None
    assert cut.boundary == boundary
    assert cut.shares == pytest.approx((lower, 1 - lower))


def test_other_topics_count_as_spread_over_the_bundle() -> None:
    many = known({0x100: 60}, others=900, others_throughput=40.0 * MIB, others_msg_rate=0.0)
    cuts = [cut_at(many, RANGE, 0x800, by_messages=by) for by in (False, True)]
    assert [cut and cut.shares for cut in cuts] == [pytest.approx((0.8, 0.2)), (1.0, 0.0)]


def split(
    *topics: TopicsOfBundle, minutes: int = 0, algorithm: Algorithm = FLOW, **given: Any
) -> Command:
    """The split of a bundle of 60 MiB/s, in one of the first rounds. `minutes`: how long after the
    topics were read.
    """
    rules = SplitSettings(True, algorithm, max_bandwidth_mib=50, max_msg_rate=10**6)
    loads = {"a:1": {BUNDLE: 60.0, bundle(16): 30.0}, "b:1": {bundle(32): 10.0}}
    log: list[TelemetryRecord] = []
    for ts in range(60 * minutes, 60 * minutes + 240, 60):
        reports = [report(name, ts, sum(one.values()), one) for name, one in loads.items()]
        for one in reports:
            assert one.bundles is not None
            one.bundles.topics[:] = 2  # one topic is never split
        log += [*reports, *([] if log else topics), sweep(ts + 1, *loads)]
    made = commands(fold_all(Engine(EngineSettings(splitting=rules, **given)), log))
    return next(one for one in made if one.action == "split")


def test_a_split_names_boundary_halves_and_the_child_that_leaves() -> None:
    made = split(known({0x100: 40, 0x300: 20}))

    assert (made.algorithm, made.boundaries) == ("specified_positions_divide", (0x201,))
    shares = [made.evidence[name] for name in ("lower_share", "upper_share")]
    assert shares == pytest.approx([2 / 3, 1 / 3])
    assert made.evidence["leaves"] == "t/ns/0x00000000_0x00000201", "90-36 and 10+36 %"
    assert made.evidence["destination"] == "b:1"


def test_halves_of_the_range_are_predicted_and_left_to_the_broker() -> None:
    made = split(known({0x100: 50, 0x900: 10}), algorithm="range_equally_divide")

    assert (made.algorithm, made.boundaries) == ("range_equally_divide", ())
    assert made.evidence["lower_share"] == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("topics", "given", "round_"),
    [
        ([], {}, 4),
        ([], {"mode": "parity"}, 1),
        ([], {"algorithm": "range_equally_divide"}, 1),
        ([known({0x100: 40, 0x300: 20})], {"minutes": 16}, 4),
        ([known({0x100: 60})], {}, 1),
        ([known({0x100: 40, 0x300: 20})], {"mode": "parity"}, 1),
        ([known({0x100: 40, 0x300: 20})], {"algorithm": "topic_count_equally_divide"}, 1),
    ],
)
def test_otherwise_the_broker_finds_the_boundary(
    topics: list[TopicsOfBundle], given: dict[str, Any], round_: int
) -> None:
    made = split(*topics, **given)
    assert (made.algorithm, made.boundaries) == (given.get("algorithm", FLOW), ())
    assert "lower_share" not in made.evidence
    assert made.round == round_


def test_a_bundle_that_is_too_large_for_any_broker_says_what_helps() -> None:
    made = LittleCluster({"a:1": {BUNDLE: 85.0}, "b:1": {}, "c:1": {}})
    for one in range(18):
        made.brokers["b:1"][f"t/ns/0x2{one:07x}_0x2{one + 1:07x}"] = 1.0
    told = known({0x100: 60, 0x300: 10}, 300, dispatch=(0, 5 * MIB))

    def said(minutes: int) -> str:
        skips = made.passes(minutes).skips
        return next(skip.text for skip in skips if skip.code == "bundle-too-large")

    before, _ = said(5), made.tell(told)
    assert said(1).endswith(f"; {hot_topic_text(told, 20.0)}")
    assert said(16) == before
    made.passes(36)
    made.tell(replace(told, ts=made.now_ms))
    made.passes(4)
    first, second = (one.text for one in made.commands if one.action == "throttle")
    assert second == f"{first}; {hot_topic_text(told, 20.0)}"


def test_the_state_remembers_topics_of_a_few_bundles_only() -> None:
    store, engine = InMemoryStore(), Engine(EngineSettings())
    stray = known({0x100: 1})
    engine.fold(stray, store)
    assert not store.get_cluster().topics, "nobody has reported"
    engine.fold(report("a:1", 0), store)
    for one in range(20):
        engine.fold(replace(stray, bundle=f"t/ns/0x{one:08x}_0x{one + 1:08x}"), store)
    assert len(store.get_cluster().topics) == 16


@pytest.mark.parametrize(
    "broken",
    [
        {"bundle": "no bundle"},
        {"topics": [["t", -1.0, 0.0]]},
        {"topics": [["t" * 513, 1.0, 0.0]]},
        {"topics": [[f"t{one}", 1.0, 0.0] for one in range(65)]},
    ],
)
def test_a_note_of_another_form_is_for_people(broken: dict[str, Any]) -> None:
    note = {"v": 1, "kind": "note", "note": "topics-of-bundle", "cluster": "c", "broker": "a:1"}
    good = {"bundle": BUNDLE, "topics": [["persistent://t/ns/x", 1.0, 1e3]], "dispatch": [0, 7]}
    found = decode(json.dumps({**note, "ts": T0, "report": good}).encode(), b"")
    assert isinstance(found, TopicsOfBundle)
    assert (found.topics[0].throughput, found.partitions, found.dispatch) == (1e3, None, (0, 7))
    other = decode(json.dumps({**note, "ts": T0, "report": {**good, **broken}}).encode(), b"")
    assert not isinstance(other, TopicsOfBundle)
