"""Recordings as people have them: what cannot be read is named with the remedy."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.command_line import rebalancer
from tests.world.uneven_log import uneven

LINES = uneven(rounds=3)
TREES: list[dict[str, Any]] = [json.loads(line) for line in LINES]
REPORTS = [tree["report"] for tree in TREES if tree["kind"] == "load-report"]


def joined(trees: list[Any]) -> bytes:
    return b"".join(json.dumps(tree).encode() + b"\n" for tree in trees)


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (lambda ms: ms // 1000, "a time in seconds; send milliseconds since 1970, here 1"),
        (lambda ms: ms / 1000 + 0.25, "a time in seconds; send milliseconds since 1970, here 1"),
        (lambda ms: ms * 1000, "a time in microseconds; send milliseconds since 1970, here 1"),
        (lambda ms: ms * 10**6, "a time in nanoseconds; send milliseconds since 1970, here 1"),
        (iso, "$.ts is a string where an integer belongs; send milliseconds since 1970"),
        (str, "$.ts is a string where an integer belongs; send milliseconds since 1970"),
    ],
    ids=["s", "s-with-a-fraction", "us", "ns", "iso", "text"],
)
def test_a_time_in_another_unit_is_named_and_closes_no_round(
    tmp_path: Path, unit: Callable[[int], object], words: str, ending: str
) -> None:
    file = tmp_path / f"recording{ending}"
    data = joined([{**tree, "ts": unit(tree["ts"])} for tree in TREES])
    file.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)

    answer = rebalancer("replay", file, "--json")

    assert answer.code == 1
    assert [one["rounds"] for one in answer.json["clusters"]] == [0]
    assert answer.json["rejected"]["total"] == len(TREES)
    assert words in answer.words


def test_records_in_the_right_unit_are_used_beside_others(tmp_path: Path) -> None:
    file = tmp_path / "recording.jsonl"
    late = {**TREES[-1], "ts": TREES[-1]["ts"] // 1000}
    file.write_bytes(joined([*TREES, late]))

    answer = rebalancer("replay", file, "--json")

    assert (answer.code, answer.json["rejected"]["by_code"]) == (0, {"out-of-range": 1})


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""], ids=["mark", "no-mark"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_marks_and_ends_of_lines_change_no_decision(
    tmp_path: Path, mark: bytes, end: bytes, ending: str
) -> None:
    (tmp_path / "plain").mkdir()
    plain, other = tmp_path / "plain" / f"recording{ending}", tmp_path / f"recording{ending}"
    pack = gzip.compress if ending.endswith("gz") else bytes
    plain.write_bytes(pack(b"".join(line + b"\n" for line in LINES)))
    other.write_bytes(pack(mark + b"".join(line + end for line in LINES)))

    answers = [rebalancer("replay", one) for one in (plain, other)]

    assert "c: round 3 at" in answers[0].out
    assert [(one.code, one.out) for one in answers] == [(0, answers[0].out)] * 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    text = ("\ufeff" if encoding == "utf-16-be" else "") + joined(TREES).decode()
    (tmp_path / "recording.jsonl").write_bytes(text.encode(encoding))

    answer = rebalancer("replay", tmp_path / "recording.jsonl")

    assert (answer.code, "is UTF-16" in answer.words, "iconv" in answer.words) == (1, True, True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (json.dumps(TREES), "an array, not an object; write one JSON object per line, as `jq -c"),
        (json.dumps(REPORTS), "an array, not an object; write one JSON object per line, as `jq -c"),
        (json.dumps(TREES, indent=1), "JSON that takes several lines (`jq -c .` joins them)"),
        (json.dumps(TREES[0], indent=1), "JSON that takes several lines (`jq -c .` joins them)"),
        (json.dumps(REPORTS[0], indent=1), "JSON that takes several lines (`jq -c .` joins them)"),
        (json.dumps(REPORTS[0]), "is a bare load report, as a broker answers it"),
        (joined(REPORTS).decode(), "is a bare load report, as a broker answers it"),
    ],
    ids=["array", "bare-array", "pretty-array", "pretty", "pretty-bare", "bare", "bare-lines"],
)
def test_json_of_another_form_is_named(tmp_path: Path, data: str, words: str) -> None:
    (tmp_path / "recording.jsonl").write_text(data, "utf-8")

    answer = rebalancer("replay", tmp_path / "recording.jsonl")

    assert answer.code == 1
    assert words in answer.words
    assert "none of its" in answer.words or "its only record" in answer.words
