"""What is said about wrong settings, about the keys of a broker.conf, and about records that cannot
be decoded.
"""

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pulsar_rebalancer.settings.broker_conf.convert import convert
from pulsar_rebalancer.settings.merge_sources import load
from sinks.wire.operator_records import encode_approval
from sinks.wire.record_decoding import (
    decode,
    decode_approval,
    decode_command,
    decode_outcome,
    decode_rejected,
    decode_round,
)
from strategies.cluster.model import LoadReport
from strategies.errors import SettingsError, WireError
from strategies.filters.policies import read_policies
from tests.golden.told import assert_told
from tests.telemetry_lines import broker_load, intent, load_report, outcome, sweep, top_bundles
from tests.unit.command_line import rebalancer
from tests.unit.test_wire_encoding import APPROVAL

RECORDS: Mapping[str, bytes] = {
    "load_report": load_report(),
    "broker_load": broker_load(),
    "top_bundles": top_bundles(),
    "sweep": sweep(1, "b1:1"),
    "outcome": outcome(),
    "intent": intent(),
    "approval": encode_approval(APPROVAL),
}
DECODERS: Mapping[str, Callable[[bytes], object]] = {
    "approval": decode_approval,
    "command": decode_command,
    "round": decode_round,
    "outcome-topic": decode_outcome,
    "rejected": decode_rejected,
}


def telemetry(record: bytes) -> object:
    return decode(record, b"")


def test_what_is_said_about_settings(tmp_path: Path, rewrite: bool) -> None:
    """Input: a settings file, variables (`$ NAME=value`) and flags (`--set path=value`)."""
    file = tmp_path / "FILE"

    def tell(lines: Sequence[str]) -> Iterator[str]:
        variables = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        flags = [line.removeprefix("--set ") for line in lines if line.startswith("--set ")]
        text = [line for line in lines if not line.startswith(("$ ", "--set "))]
        file.write_text("\n".join(text), "utf-8")
        try:
            made = load(file, dict(one.split("=", 1) for one in variables), flags)
        except SettingsError as error:
            yield from (line.replace(str(file), "FILE") for line in error.complaints)
            return
        yield from (
            f"{one.leaf.path} = {one.value!r} ({one.kind})"
            for one in made.entries
            if one.kind != "default"
        )
        yield from made.warnings

    assert_told("settings.txt", tell, rewrite)


def test_what_becomes_of_a_broker_conf(tmp_path: Path, rewrite: bool) -> None:
    """Settings that a line leads to, and what is said about the other lines."""
    file = tmp_path / "FILE"

    def tell(lines: Sequence[str]) -> Iterator[str]:
        file.write_text("\n".join(lines), "iso-8859-1")
        try:
            found = convert(file)
        except SettingsError as error:
            yield from (line.replace(str(file), "FILE") for line in error.complaints)
            return
        for path, origin in found.origins.items():
            if origin.startswith(str(file)):
                yield f"{path} = {found.settings[path]!r} ({origin.replace(str(file), 'FILE')})"
        yield from (line.replace(str(file), "FILE") for line in found.warnings)

    assert_told("broker_conf.txt", tell, rewrite)


def test_what_an_upgrade_to_5_0_changes(tmp_path: Path, rewrite: bool) -> None:
    file = tmp_path / "FILE"

    def tell(lines: Sequence[str]) -> Iterator[str]:
        file.write_text("\n".join(lines), "iso-8859-1")
        words = ("config", "from-broker-conf", file)
        shown = rebalancer(*words, "--pulsar", "5.0").out
        yield from shown.removeprefix(rebalancer(*words).out).splitlines()[1:]

    assert_told("upgrade.txt", tell, rewrite)


def test_what_is_said_about_policies(rewrite: bool) -> None:
    """Input: a snapshot of a cluster's policies. Also the faults of policies that keep all brokers
    out of their namespaces.
    """

    def tell(lines: Sequence[str]) -> Iterator[str]:
        found = read_policies("".join(lines))
        yield from found.complaints
        yield from (f"fault: {one.fault}" for one in found.isolation if one.fault is not None)

    assert_told("policies.txt", tell, rewrite)


def test_what_is_said_about_records(rewrite: bool) -> None:
    """Input: a legal record with changed fields (`a.b=JSON`, `-a.b`), or bytes."""

    def tell(lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            name, _, rest = line.partition(" ")
            decoder = DECODERS.get(name, telemetry)
            record = changed(RECORDS[name], rest) if name in RECORDS else ast.literal_eval(rest)
            try:
                decoder(record)
            except WireError as error:
                yield f"{error.code}: {error.text}"
            else:
                yield "is accepted"

    assert_told("records.txt", tell, rewrite)


def test_what_is_left_out_of_a_report(rewrite: bool) -> None:
    """Besides the sentence: figures of the broker and of its bundles that differ from those of the
    legal record.
    """

    def tell(lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            name, _, edits = line.partition(" ")
            legal = read(RECORDS[name])
            mended = read(changed(RECORDS[name], edits))
            differing = [f"{key} {mended[key]}" for key in legal if legal[key] != mended[key]]
            yield "; ".join(differing)

    assert_told("left_out.txt", tell, rewrite)


def read(record: bytes) -> dict[str, object]:
    """What a report says, by field."""
    found = decode(record, b"")
    assert isinstance(found, LoadReport)
    figures = {} if found.figures is None else asdict(found.figures)
    table = found.bundles
    bundles = (None, None) if table is None else (table.traffic.tolist(), table.topics.tolist())
    said = {"left_out": found.left_out, "started_ms": found.started_ms}
    return said | figures | dict(zip(("traffic of bundles", "topics"), bundles, strict=True))


def changed(record: bytes, edits: str) -> bytes:
    """The record with these edits, one or more, separated by ` & `."""
    tree = json.loads(record)
    for edit in edits.split(" & ") if edits else []:
        path, equals, value = edit.partition("=")
        *above, last = path.removeprefix("-").split(".")
        holder = tree
        for step in above:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        if equals:
            holder[last] = json.loads(value)
        else:
            del holder[last]
    return json.dumps(tree).encode()
