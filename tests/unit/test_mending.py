"""One bad figure does not cost the broker: it is left out by name, and the rest of the report
counts.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_rebalancer.decisions.explain.explanation_lines import explain
from pulsar_rebalancer.decisions.explain.subject import locate
from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.lab.plain_loop import PlainLoop
from sinks.wire.record_decoding import Position, decode, decode_round
from strategies.cluster.model import Figures, LoadReport, Policies, Resource, Round, Skip, Tombstone
from strategies.cluster.packed_records import pack_record, unpack_record
from strategies.errors import WireError
from strategies.filters.policies import read_policies
from strategies.fold.engine import EngineSettings
from tests.changed_records import changed
from tests.illegal_records import bad_figure
from tests.telemetry_lines import broker_load, bundle, load_report, one_of_each, sweep, top_bundles


def report_of(record: bytes) -> LoadReport:
    decoded = decode(record, b"")
    assert isinstance(decoded, LoadReport)
    return decoded


def figures_of(record: bytes) -> Figures:
    figures = report_of(record).figures
    assert figures is not None
    return figures


def said(record: bytes) -> str:
    (text,) = report_of(record).left_out
    return text


def token(record: bytes, *path: str, to: bytes) -> bytes:
    """The record with something in place of a figure that Python would not write."""
    return changed(record, *path, to="@").replace(b'"@"', to)


def whole_numbers(
    tree: object, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """The place of every integer in a record."""
    if isinstance(tree, int) and not isinstance(tree, bool):
        yield path
    if isinstance(tree, dict | list):
        for step, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from whole_numbers(value, (*path, step))


def meaning(record: bytes) -> str:
    decoded = decode(record, b"")
    if isinstance(decoded, Policies):
        return repr(read_policies(decoded.snapshot))
    return repr(decoded)


@pytest.mark.parametrize("record", one_of_each(), ids=lambda record: json.loads(record)["kind"])
def test_a_whole_number_may_have_a_point(record: bytes) -> None:
    places = [*whole_numbers(json.loads(record))]
    assert places
    for place in places:
        number = json.loads(record)
        for step in place:
            number = number[step]
        for form in (f"{number}.0", f"{number}.000", f"{number}e0"):
            pointed = changed(record, *place, to="@").replace(b'"@"', form.encode())
            assert meaning(pointed) == meaning(record), place


@pytest.mark.parametrize(
    ("to", "shown"), [(b"1e400", "inf"), (b"9" * 5000, "inf"), (b"1e19", "1e+19")]
)
def test_a_usage_beyond_all_numbers_is_not_measured(to: bytes, shown: str) -> None:
    record = token(load_report(), "report", "cpu", "usage", to=to)
    assert said(record) == f"cpu.usage is {shown}"
    assert figures_of(record).cpu == Resource(-1.0, -1.0)
    assert figures_of(record).bandwidth_in == figures_of(load_report()).bandwidth_in


def test_a_list_of_bundles_that_nobody_gives_is_not_named_among_the_faults() -> None:
    unlisted = changed(load_report(), "report", "bundles", to=None)
    record = token(unlisted, "report", "cpu", "usage", to=b"1e400")
    assert said(record) == "cpu.usage is inf"


#: Of the extensible load manager.
NEW_REPORTS = (broker_load(), top_bundles())
CPU_IS_NULL = changed(load_report(), "report", "cpu", to=None)
#: Records that are not mended, by the code of their rejection.
REJECTED: Mapping[str, Sequence[bytes]] = {
    "missing-field": [
        changed(load_report(), "report", to={"bundles": []}),
        changed(broker_load(), "report", to={"bundleCount": 4}),
    ],
    "wrong-type": [
        changed(load_report(), "report", to=None),
        *(changed(one, "report", to=to) for one in NEW_REPORTS for to in (0, [1])),
        # One bad figure beside a key that occurs twice.
        CPU_IS_NULL[:-1] + b',"ts":4}',
        CPU_IS_NULL.replace(b'"report":{', b'"report":{"cpu" :{},'),
        CPU_IS_NULL.replace(b'"topics":3', b'"topics":3,"topics":4', 1),
    ],
    "out-of-range": [changed(load_report(), "ts", to=4.5)],
    "broker-id": [changed(load_report(), "broker", to="b1")],
    "not-finite": [
        load_report(loads={"t/ns/not-a-range": 1.0}).replace(b"50.0", b"NaN", 1),
        *(token(one, "report", to=to) for one in NEW_REPORTS for to in (b"NaN", b"Infinity")),
    ],
    "not-json": [
        load_report()[:-1] + b',"ts":4.0,"ts":4}',
        load_report().replace(b'"msgRateIn":150.0', b'"msgRateIn":"NaN","msgRateIn":1', 1),
    ],
}


@pytest.mark.parametrize(("code", "records"), REJECTED.items(), ids=REJECTED)
def test_what_is_not_one_bad_figure_is_not_mended(code: str, records: Sequence[bytes]) -> None:
    for record in records:
        with pytest.raises(WireError) as refused:
            decode(record, b"")
        assert refused.value.code == code


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_one_bad_figure_is_it_alone_is_left_out(seed: int) -> None:
    name, record = bad_figure(random.Random(seed), load_report())
    assert said(record).startswith((f"{name} ", f"{name}."))


def test_what_was_left_out_travels_with_the_record() -> None:
    again = unpack_record(pack_record(report_of(CPU_IS_NULL)))
    assert isinstance(again, LoadReport)
    assert again.left_out == ("cpu is null",)


def rounds_of(lines: list[bytes], settings: EngineSettings | None = None) -> list[Round]:
    loop = PlainLoop(settings or EngineSettings())
    rows = [row for at, one in enumerate(lines) for row in loop.feed(Position("a", 0, at), one)]
    return [decode_round(row.value) for row in rows if row.kind == "rounds"]


def minutes(bad: dict[str, bytes], count: int = 3) -> list[bytes]:
    """Minutes of three brokers; `bad`: broker → what its usage of CPU is instead."""
    lines = list[bytes]()
    for minute in range(count):
        for name in ("a:1", "b:1", "c:1"):
            record = load_report(name, 60 * minute + 1, cpu=50.0 + minute)
            lines.append(
                token(record, "report", "cpu", "usage", to=bad[name]) if name in bad else record
            )
        lines.append(sweep(60 * minute + 2, "a:1", "b:1", "c:1"))
    return lines


def skips(done: Round, code: str) -> list[Skip]:
    return [skip for skip in done.skips if skip.code == code]


def test_a_broker_with_a_bad_figure_is_in_the_round_by_its_other_figures() -> None:
    (*_, done) = rounds_of(minutes({"b:1": b'"NaN"'}))
    assert done.brokers == ("a:1", "b:1", "c:1")
    (skip,) = skips(done, "figures-left-out")
    assert (skip.names, skip.text) == (("b:1",), 'cpu.usage is "NaN"')
    (skip,) = skips(done, "resource-not-measured")
    assert (skip.names, skip.evidence["resources"]) == (("b:1",), "cpu")


def test_a_figure_that_can_be_used_again_is_no_longer_named() -> None:
    lines = [*minutes({"b:1": b"NaN"}, 2)[4:], *minutes({}, 4)[8:]]
    named = [[skip.names for skip in skips(one, "figures-left-out")] for one in rounds_of(lines)]
    assert named == [[("b:1",)], [], []]


def rejected(lines: list[bytes], *brokers: str) -> list[bytes]:
    """The lines with reports of these brokers of which nothing can be used."""
    return [
        changed(one, "report", to={}) if json.loads(one).get("broker") in brokers else one
        for one in lines
    ]


def test_a_broker_whose_reports_are_all_rejected_is_named() -> None:
    rounds = rounds_of(rejected(minutes({}), "b:1"))
    for done in rounds:
        assert done.brokers == ("a:1", "c:1")
        assert "rejected topic" in done.stale["b:1"]
        assert [skip.names for skip in skips(done, "reports-rejected")] == [("b:1",)]
        assert done.state is not None
        assert done.state.text.endswith("; 1 broker has no usable figures")
    assert len(rounds) == 3
    history = DecisionLog(tuple(rounds), ())
    told = "\n".join(explain(locate("b:1", history).subject, history, 1))
    assert "was left out: no report of it was accepted" in told


def test_where_all_reports_are_rejected_the_round_is_blind() -> None:
    (*_, done) = rounds_of(rejected(minutes({}), "a:1", "b:1", "c:1"))
    assert done.state is not None
    assert done.state.code == "blind"
    assert "a:1: no report of it was accepted lately" in done.state.text
    assert "rejected topic" in done.state.advice


def test_a_broker_whose_reports_become_unusable_is_named_when_the_last_one_is_too_old() -> None:
    lines = minutes({}, 8)
    rounds = rounds_of(lines[:8] + rejected(lines[8:], "b:1"))  # from the third minute on
    named = [bool(skips(one, "reports-rejected")) for one in rounds]
    assert named == [False] * 4 + [True] * 4
    assert rounds[-1].stale["b:1"].startswith("newest report is 361 s old")


def test_brokers_that_did_not_answer_or_left_are_not_named() -> None:
    silent = [
        changed(one, "missing", to={"d:1": "timed out"}) if b'"sweep"' in one else one
        for one in minutes({})
    ]
    assert [skips(one, "reports-rejected") for one in rounds_of(silent)] == [[], [], []]


@pytest.mark.parametrize(
    "place", [(), ("report",), ("report", "cpu"), ("report", "lastStats", bundle(1))]
)
@pytest.mark.parametrize("to", [b"NaN", b"-Infinity", b"1e999", b"4.0"])
def test_what_nobody_reads_is_left_out_without_a_word(place: tuple[str, ...], to: bytes) -> None:
    record = changed(load_report(), "v", to=1.0)
    read = report_of(token(record, *place, "unread", to=to))
    assert pack_record(read) == pack_record(report_of(load_report()))


def test_a_text_keeps_what_looks_like_a_number() -> None:
    text = '4.0, "NaN": Infinity\\'
    cluster, unread = changed(load_report(), "cluster", to=text), ("report", "unread")
    record = changed(changed(cluster, *unread, to=text), "report", "cpu", to=None)
    assert report_of(record).cluster == text
    assert said(record) == "cpu is null"


def test_policies_are_not_changed() -> None:
    (record,) = (one for one in one_of_each() if json.loads(one)["kind"] == "policies")
    (name, *_) = json.loads(record)["report"]
    with pytest.raises(WireError, match="is NaN, which is no JSON number") as refused:
        decode(token(record, "report", name, to=b"NaN"), b"")
    assert refused.value.code == "not-finite"


def test_a_withdrawn_report_may_have_numbers_with_a_point() -> None:
    record = changed(changed(broker_load(), "report", to=None), "v", to=1.0)
    assert isinstance(decode(record, b""), Tombstone)
