"""What `rebalancer top` and `export` print about a little cluster is in top_and_export.txt: by its
topics, and by the recording and the folder of a replay.
"""

import csv
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from sinks.collector.broker_poll import Report
from sinks.collector.collector import encode_note
from sinks.wire.contracts.telemetry import BundleTopicsReport
from sinks.wire.record_decoding import decode_command
from sinks.wire.record_encoding import encode_outcome
from strategies.cluster.move_cost import MoveCost
from tests.control_topic import outcome
from tests.golden.printed import compare, printed
from tests.golden.test_status import Topics
from tests.telemetry_lines import bundle
from tests.unit.command_line import rebalancer
from tests.world.telemetry import T0
from tests.world.uneven_log import uneven


@pytest.mark.heavy
def test_what_is_printed_about_loads_and_the_log(tmp_path: Path, rewrite: bool) -> None:
    topics = Topics(tmp_path / "topics")
    report = BundleTopicsReport(
        bundle(7), [("persistent://t/ns/loud", 300.0, 3e5), ("persistent://t/ns/low", 46.0, 5e4)]
    )
    note = encode_note("topics-of-bundle", "c", Report("hot:1", T0, msgspec.json.encode(report)))
    topics.decide([*uneven(rounds=4), note])
    first, second, *_ = map(decode_command, topics.read("commands"))
    cost = MoveCost(120, 450, 3, 1, "modular")
    lost = outcome(second, "failed", "=HYPERLINK(lost)")
    answers = [replace(outcome(first, "applied"), cost=cost), lost]
    topics.write("outcomes", [encode_outcome(one) for one in answers])
    words = [f"--set={path}={value}" for path, value in topics.settings().items()]
    replay, log = tmp_path / "topics/replay", tmp_path / "topics/log.jsonl"
    parts = [
        printed(" ".join(map(str, asked)), rebalancer(*asked, *words), tmp_path)
        for asked in (
            ("top", "--last", 3),
            ("top", log, "--last", 1, "--json"),
            ("top", log, "--cluster", "x"),
            *(("export", table) for table in ("usage", "moves", "plans", "outcomes")),
            ("export", "usage", "--from", replay, "--since", "1m"),
            ("export", "usage", "--since", "soon"),
            ("export", "usage", "--out", tmp_path / "no/a.csv"),
            ("export", "usage", "--out", tmp_path / "a.xlsx"),
        )
    ]
    compare(Path(__file__).with_name("top_and_export.txt"), parts, rewrite)
    for name in ("moves.csv", "moves.parquet"):
        assert rebalancer("export", "moves", "--out", tmp_path / name, *words).code == 0
    rows = [*csv.DictReader((tmp_path / "moves.csv").read_text().splitlines())]
    typed = parquet.read_table(tmp_path / "moves.parquet").to_pylist()
    (formula,) = [row for row in rows if row["reason"].startswith("'=")]  # no spreadsheet runs it
    formula["reason"] = formula["reason"].removeprefix("'")
    assert rows == [
        {name: "" if cell is None else str(cell) for name, cell in row.items()} for row in typed
    ]
