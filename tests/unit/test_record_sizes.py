"""Records of ours stay small, and any record costs memory in proportion to its size."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.wire.contracts.telemetry import KINDS
from sinks.wire.decode_complaints import complaint
from sinks.wire.event_to_topic_rows import LARGEST_ROUND, encode_fitting
from sinks.wire.names_and_times import check_shape, check_utf8
from sinks.wire.record_decoding import decode, decode_rejected, decode_round, read_command
from sinks.wire.record_encoding import encode_command, encode_round
from strategies.cluster.model import LoadReport, Policies, Skip
from strategies.cluster.packed_records import pack_record
from strategies.errors import WireError
from strategies.filters.isolation import isolated
from strategies.filters.policies import read_policies
from strategies.fold.engine import EngineSettings
from strategies.round.commands_and_record import bounded
from tests.changed_records import changed
from tests.hostile_records import COSTLY, FAULTS, costly_policies, hostile
from tests.replayed import replayed
from tests.telemetry_lines import bundle, bundle_stats, line, load_report, sweep
from tests.unit.test_wire_encoding import COMMAND, ROUND


def policies(count: int) -> dict[str, dict[str, int]]:
    """A snapshot of which nothing can be read."""
    return {"topic_counts": {f"{number:x}": -1 for number in range(count)}}


def rows(records: Iterable[bytes], kind: str) -> Sequence[bytes]:
    return replayed(records, EngineSettings())[kind]


@pytest.mark.parametrize(("count", "last"), [(10, 9), (11, "policies: 1 more part")])
def test_ten_complaints_are_spelled_out_and_others_counted(count: int, last: object) -> None:
    complaints = read_policies(json.dumps(policies(count))).complaints
    assert len(complaints) == count
    text = "policies.topic_counts.{}: must be a number of topics, got -1"
    assert complaints[0] == text.format(0)
    assert complaints[-1].startswith(text.format(last) if last == 9 else str(last))


def test_a_round_over_unreadable_policies_is_small() -> None:
    reports = [load_report("b1:8080", 1), load_report("b2:8080", 2)]
    unreadable = line("policies", report=policies(20_000))
    (done,) = rows([unreadable, *reports, sweep(3, "b1:8080", "b2:8080")], "rounds")
    assert len(done) < 10_000
    assert b"19990 more parts" in done


def test_a_reason_of_any_length_for_a_missing_broker_is_cut() -> None:
    why = {"b2:8080": "x" * 1_000_000}
    records = [load_report("b1:8080", 1), load_report("b2:8080", 2)]
    for at in (300, 600):
        records += [load_report("b1:8080", at - 1), sweep(at, "b1:8080", missing=why)]
    done = rows(records, "rounds")[-1]
    assert decode_round(done).stale["b2:8080"].endswith("x)")
    assert len(done) < 10_000


def test_names_of_policies_are_cut_where_they_are_quoted() -> None:
    long = {"p" * 1_000_000: {"namespaces": ["n" * 1_000_000 + "("]}}
    view = read_policies(json.dumps({"isolation": long}))
    (refusal,) = isolated(view, "t/ns", ["b1:8080"]).values()
    assert len(refusal.text) < 1_000
    assert len(view.complaints[0]) < 1_000


def test_bundles_left_alone_are_named_up_to_a_bound_and_counted_beyond() -> None:
    names = tuple(f"t/ns/{number}" for number in range(1_000))
    skips = [Skip("bundle", names, "cooling", "rests", f"b{one}:8080") for one in (1, 2)]
    skips += [Skip("bundle", (name,), "stays", "stays", "b3:8080") for name in names]
    first, second, last = bounded(skips, "c", brokers=3)
    assert first == skips[0]
    assert (second.names, second.evidence) == (names[:60], {"unnamed": 940})
    assert (last.code, last.evidence, last.names) == ("more-left-alone", {"stays": 1_000}, ("c",))


def test_few_skips_stay_as_they_are() -> None:
    skips = (
        Skip("bundle", ("t/ns/1",), "cooling", "rests", "b1:8080"),
        Skip("broker", ("b1:8080",), "idle", "is idle"),
    )
    assert bounded(skips, "c", brokers=1) == skips


def brokers(count: int, letters: int) -> dict[str, float]:
    return {f"{number:05d}-{'x' * letters}:8080": 0.5 for number in range(count)}


def test_a_round_of_5000_brokers_is_written_whole_and_fits_everywhere() -> None:
    usage = brokers(5_000, 40)
    done = replace(ROUND, brokers=tuple(usage), usage=usage, usage_after=usage, stale={})
    assert encode_fitting(done) == encode_round(done)
    assert len(encode_fitting(done)) < 1_048_576


@pytest.mark.heavy
def test_a_round_that_is_too_large_names_fewer_brokers_and_says_so() -> None:
    usage = brokers(20_000, 500)
    stale = dict.fromkeys(usage, "old")
    done = replace(ROUND, brokers=tuple(usage), usage=usage, usage_after=usage, stale=stale)
    value = encode_fitting(done)
    read = decode_round(value)
    assert LARGEST_ROUND / 4 < len(value) <= LARGEST_ROUND
    assert set(read.usage) == set(read.brokers) == set(list(usage)[: len(read.brokers)])
    assert read.skips[0].code == "round-shortened"
    assert read.skips[0].evidence == {"brokers": 20_000, "stale": 20_000}
    parts = ("round", "epoch", "digest", "spread")
    assert [getattr(read, one) for one in parts] == [getattr(done, one) for one in parts]


def test_a_rejected_row_fits_a_topic_of_a_megabyte_and_says_that_its_original_was_cut() -> None:
    record = hostile("long-string", "later-version", 7 * 2**20)
    (value,) = rows([record], "rejected")
    row = decode_rejected(value)
    assert len(value) < 1_000_000
    assert (row.offset, row.size, row.truncated) == (0, len(record), True)
    assert row.original == record[: len(row.original)]


def test_an_id_of_any_length_is_no_command() -> None:
    """It would come back in the outcome, twice."""
    with pytest.raises(WireError, match=r"\$\.id is 1000000 characters long"):
        read_command(encode_command(replace(COMMAND, id="x" * 1_000_000)))


_PROJECT = Path(__file__).parents[2]
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def check_peaks(size: int, *faults: str) -> None:
    program = [sys.executable, "-m", "tests.unit.record_peaks", str(size), *faults]
    ran = subprocess.run(
        program, cwd=_PROJECT, capture_output=True, text=True, timeout=3_000, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    peaks = [line.split() for line in ran.stdout.splitlines()]
    assert len(peaks) == len(COSTLY) * (len(faults) + 4)
    assert [one for one in peaks if int(one[2]) > 20 * int(one[1]) + 20 * 10**6] == []


@pytest.mark.heavy
@linux
def test_no_record_of_half_a_megabyte_costs_more_than_its_size_allows() -> None:
    check_peaks(2**19, "half-a-character")


@linux
@pytest.mark.slow
def test_no_record_of_any_size_costs_more_than_its_size_allows() -> None:
    check_peaks(8 * 2**20 - 2_000, *FAULTS)


def said_of(record: bytes) -> list[str]:
    """Why a record is refused, or what is left out of it; nothing only if it counts in full."""
    try:
        read = decode(record, b"")
    except WireError as refused:
        return [refused.text]
    assert isinstance(read, LoadReport)
    assert read.left_out or pack_record(read) == pack_record(decode(load_report(), b""))
    return list(read.left_out)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_hostile_record_is_refused_or_left_out_in_short_sentences(fault: str) -> None:
    """An infinity that nobody reads needs no word."""
    for kind in COSTLY:
        for first in (True, False):
            said = said_of(hostile(kind, fault, 3_000, first=first))
            assert (said == []) == (fault == "infinite-end"), kind
            assert all(len(one) < 2_000 for one in said), kind


def test_a_record_with_more_arrays_than_any_report_is_too_crowded() -> None:
    told = r"has 40003 arrays and objects, more than the 20000"
    with pytest.raises(WireError, match=told) as refused:
        decode(costly_policies("empty-arrays", 3 * 40_000), b"")
    assert refused.value.code == "too-crowded"


def test_brackets_in_strings_are_no_arrays() -> None:
    assert isinstance(decode(costly_policies("brackets-in-strings", 3 * 2**20), b""), Policies)


@pytest.mark.heavy
def test_a_look_at_the_shape_costs_three_times_the_record() -> None:
    record = COSTLY["towers"](8 * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="arrays and objects"):
            check_shape(record)
        assert tracemalloc.get_traced_memory()[1] <= 3 * len(record)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "fault", ["no-kind", "unknown-kind", "later-version", "no-broker", "wrong-figure"]
)
@pytest.mark.parametrize(
    "kind", ["small-objects", "short-strings", "distinct-keys", "wide-character"]
)
def test_a_value_that_the_contract_does_not_name_is_not_built_for_a_refusal(
    kind: str, fault: str
) -> None:
    """The 64 KiB are what the first call of a process keeps; the value takes megabytes."""
    record = hostile(kind, fault, 2**20)
    tracemalloc.start()
    try:
        decoder_message = "Expected `float`, got `str` - at `$.report.cpu.usage`"
        assert complaint(record, KINDS, decoder_message).code != "not-json"
        assert tracemalloc.get_traced_memory()[1] <= 1.5 * len(record) + 2**16
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("before", range(2**18 - 4, 2**18 + 1))
def test_a_character_may_begin_in_one_piece_and_end_in_the_next(before: int) -> None:
    record = b"x" * before + "😀".encode()
    check_utf8(record)
    with pytest.raises(UnicodeDecodeError):
        check_utf8(record[:-1])


@pytest.mark.parametrize(("levels", "code"), [(400, "too-crowded"), (401, "too-deep")])
def test_depth_is_counted_over_a_record_of_any_length(levels: int, code: str) -> None:
    record = b"[" * 200 + b"[]," * 2**20 + b"[" * (levels - 200)
    with pytest.raises(WireError) as refused:
        check_shape(record)
    assert refused.value.code == code


@pytest.mark.heavy
def test_the_largest_report_is_not_too_crowded() -> None:
    loads = {f"t/ns-{number}/0x00000000_0x10000000": 1.0 for number in range(30_000)}
    decode(load_report(loads=loads), b"")


@pytest.mark.heavy
def test_the_entry_at_fault_is_found_among_very_many() -> None:
    stats = {f"t/ns-{number}/0x00000000_0x10000000": bundle_stats(1.0) for number in range(20_000)}
    wrong = stats | {bundle(7): bundle_stats(1.0) | {"msgRateIn": "many"}, bundle(8): 5}
    record = changed(load_report(), "report", "lastStats", to=wrong)

    assert said_of(record) == [f'bundle "{bundle(7)}": msgRateIn is "many", and 1 more bundles']
    refused = changed(record, "report", "lastStats", "nowhere", to=bundle_stats(1.0))
    told = r'lastStats\["t/ns/0x07000000_0x08000000"\]\.msgRateIn is a string'
    with pytest.raises(WireError, match=told):
        decode(refused, b"")


@pytest.mark.heavy
def test_an_entry_is_not_blamed_for_what_stands_behind_it() -> None:
    record = changed(load_report(), "report", "lastStats", bundle(1), "topics", to=True)
    record = changed(record, "report", "bundles", to=5)

    assert said_of(record) == [f'bundle "{bundle(1)}": topics is no number', "bundles is 5"]
    refused = changed(record, "report", "lastStats", "nowhere", to=bundle_stats(1.0))
    told = r'lastStats\["t/ns/0x01000000_0x02000000"\]\.topics is true or false'
    with pytest.raises(WireError, match=told):
        decode(refused, b"")
