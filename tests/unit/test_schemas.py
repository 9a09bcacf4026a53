"""The schemas in docs/schemas are those of the code, and what travels on the topics fits them."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from pulsar_rebalancer.lab.plain_loop import PlainLoop
from scripts.schemas import schemas
from sinks.recordings.json_lines import open_recording
from sinks.wire.event_to_topic_rows import OutputRow
from sinks.wire.operator_records import encode_approval, encode_approval_outcome
from sinks.wire.record_decoding import Position, decode
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.errors import WireError
from strategies.fold.engine import EngineSettings
from tests.illegal_records import (
    Maker,
    illegal_lines,
    missing_field,
    negative,
    too_big,
    unknown_kind,
    unknown_version,
    wrong_type,
)
from tests.telemetry_lines import load_report, one_of_each
from tests.unit.test_wire_encoding import ANSWER, APPROVAL, COMMAND, OUTCOME, PAUSE, ROUND

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT.parent / "shared" / "recordings"


@cache
def validator(topic: str) -> Draft202012Validator:
    schema = json.loads((ROOT / "docs" / "schemas" / f"{topic}.schema.json").read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def check(topic: str, *records: bytes) -> None:
    checked = validator(topic)
    for record in records:
        checked.validate(json.loads(record))


def test_the_files_are_those_the_code_makes() -> None:
    written = {
        path.name: path.read_text("utf-8")
        for path in (ROOT / "docs" / "schemas").glob("*.schema.json")
        if path.name in schemas()
    }
    assert written == schemas(), "run: python -m scripts.schemas docs/schemas"


@pytest.mark.heavy
def test_the_program_that_writes_them(tmp_path: Path) -> None:
    command, folder = [sys.executable, "-m", "scripts.schemas"], tmp_path / "new"
    written = subprocess.check_output([*command, str(folder)], cwd=ROOT)
    assert len(written.splitlines()) == 6
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == schemas()
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 2


def test_legal_telemetry_fits() -> None:
    check("telemetry", *one_of_each(), b'{"v":1,"kind":"note","cluster":"c"}')


@pytest.mark.parametrize(
    "maker", [missing_field, negative, too_big, unknown_kind, unknown_version, wrong_type]
)
def test_what_the_decoder_refuses_for_its_shape_does_not_fit(maker: Maker) -> None:
    checked = validator("telemetry")
    records = list(illegal_lines([load_report()], 40, 3, [maker]))
    assert records
    for _, _, record in records:
        with pytest.raises(WireError):
            decode(record, b"")
        if b"9" * 5000 not in record:  # Python itself refuses to read that number
            assert not checked.is_valid(json.loads(record)), record


def test_what_we_write_fits() -> None:
    check("commands", encode_command(COMMAND), encode_command(COMMAND)[:-1] + b',"sig":"00"}')
    check("rounds", encode_round(ROUND))
    check("outcomes", encode_outcome(OUTCOME), encode_approval_outcome(ANSWER))
    check("approvals", encode_approval(APPROVAL), encode_approval(PAUSE))


def test_rejected_rows_fit_even_for_the_worst_records() -> None:
    loop = PlainLoop(EngineSettings())
    rows: list[OutputRow] = []
    for _, _, record in illegal_lines([load_report()], 150, 5):
        rows += loop.feed(Position("telemetry", 0, 0), record)
    check("rejected", *(row.value for row in rows if row.kind == "rejected"))
    assert len(rows) > 100


@pytest.mark.heavy
def test_recordings_and_what_follows_from_them_fit() -> None:
    if not RECORDINGS.is_dir():
        pytest.skip("../shared/recordings is not there")
    checked = {topic: validator(topic) for topic in ("telemetry", "commands", "rounds", "rejected")}
    recordings = sorted(RECORDINGS.glob("*.jsonl.gz"))
    assert recordings
    for recording in recordings:
        loop = PlainLoop(EngineSettings())
        for number, line in enumerate(open_recording(recording)):
            if number % 5 == 0:  # all of them take long
                checked["telemetry"].validate(json.loads(line))
            for row in loop.feed(Position("telemetry", 0, number), line):
                checked[row.kind].validate(json.loads(row.value))
