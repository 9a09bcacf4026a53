"""`rebalancer conformance`: what it prints, how it exits, and that no changed vector slips through.
What it refuses is in tests/golden/lab_refusals.txt.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.lab.conformance.suites import SUITES
from tests.unit.command_line import Answer, rebalancer

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
THRESHOLD = VECTORS / "shedding" / "ThresholdShedder.jsonl.gz"
AVG = VECTORS / "shedding" / "AvgShedder.jsonl.gz"
WORKED = VECTORS / "worked.jsonl.gz"
SPLITS = VECTORS / "splits50" / "algorithms50.jsonl.gz"


def conformance(*words: object) -> Answer:
    return rebalancer("conformance", *words)


def cases(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def written(folder: Path, *lines: object, name: str = "vectors.jsonl") -> Path:
    """A file of these cases; text is written as it is."""
    file = folder / name
    file.write_text(
        "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines),
        encoding="utf-8",
    )
    return file


def changed(folder: Path, source: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The first case of a file that unloads something, with its answers changed by hand."""
    case = next(
        case
        for case in cases(source)
        if any(answer["unloads"] for answer in case["expect"]["rounds"])
    )
    change(next(answer for answer in case["expect"]["rounds"] if answer["unloads"]))
    return written(folder, case)


@pytest.mark.parametrize(("file", "cases"), [(THRESHOLD, 34), (SPLITS, 9)])
def test_an_identical_file_exits_0_and_says_so(file: Path, cases: int) -> None:
    """It is compared with the release that answered."""
    result = conformance(file)
    assert result.code == 0
    assert f"{cases} of {cases} cases identical, 0 different" in result.out


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        (AVG, {"v": 1, "suite": "shedding", "strategy": "AvgShedder", "total": 45, "different": 0}),
        (WORKED, {"total": 75, "not_in_this_version": {}}),
    ],
)
def test_json_carries_the_counts(file: Path, counts: dict[str, Any]) -> None:
    wanted = counts | {"identical": counts["total"]}
    report = conformance(file, "--json").json
    assert {key: report[key] for key in wanted} == wanted


def test_list_names_every_case() -> None:
    lines = conformance(WORKED, "--list").out.splitlines()
    assert "identical           worked/T1 (shedding/ThresholdShedder, 1 round)" in lines
    assert "identical           worked/O1 (shedding/OverloadShedder, 1 round)" in lines


def test_list_without_a_file_names_every_suite_and_its_classes() -> None:
    listed = conformance("--list", "--json").json["suites"]
    assert set(listed) == {suite for suite, _ in SUITES}
    assert "AvgShedder" in listed["shedding"]


def test_list_says_which_classes_the_live_round_uses() -> None:
    listed = conformance("--list", "--json").json
    assert listed["live"]["shedding"] == listed["suites"]["shedding"]
    assert listed["live"]["throttling"] == []
    assert set(listed["suites"]["averaging"]) - set(listed["live"]["averaging"]) == {
        "TimeAverageBrokerData",
        "BrokerLoadData",
    }
    rows = [line.split() for line in conformance("--list").out.splitlines()]
    assert [row[-1] for row in rows if row and row[0] in ("shedding", "throttling")] == [
        "all",
        "none",
    ]


def last_bit(answer: dict[str, Any]) -> None:
    broker = next(iter(answer["ema"]))
    answer["ema"][broker] *= 1 + 2**-52


def one_more_hit(answer: dict[str, Any]) -> None:
    answer["hitLow"]["b1:1"] = answer["hitLow"].get("b1:1", 0) + 1


@pytest.mark.parametrize(
    ("source", "change", "field"),
    [
        (THRESHOLD, last_bit, "ema["),
        (THRESHOLD, lambda it: it.update(error="java.lang.NullPointerException"), "error"),
        (AVG, one_more_hit, "hitLow["),
        (AVG, lambda it: it.update(targets=dict.fromkeys(it["targets"], "else:1")), "targets["),
        (AVG, lambda it: it.pop("plan"), "plan"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_a_vector_changed_by_hand_exits_5_and_shows_where(
    tmp_path: Path, source: Path, change: Callable[[dict[str, Any]], None], field: str
) -> None:
    file = changed(tmp_path, source, change)
    result = conformance(file, "--first", 2)
    assert result.code == 5
    answers = json.loads(file.read_text("utf-8"))["expect"]["rounds"]
    number = next(at for at, answer in enumerate(answers, 1) if answer["unloads"])
    assert f"round {number}, {field}" in result.out
    assert "expected" in result.out
    assert conformance(file, "--json").code == 5


@pytest.mark.parametrize(
    "change", [lambda it: it["unloads"].reverse(), lambda it: it["unloads"][0][1].reverse()]
)
def test_order_counts(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    def several(answer: dict[str, Any]) -> bool:
        return len(answer["unloads"]) > 1 and len(answer["unloads"][0][1]) > 1

    case = next(case for case in cases(THRESHOLD) if any(map(several, case["expect"]["rounds"])))
    change(next(answer for answer in case["expect"]["rounds"] if several(answer)))
    assert conformance(written(tmp_path, case)).code == 5


def test_the_rules_of_another_release_can_be_compared() -> None:
    assert conformance(SPLITS, "--pulsar", "4.2").code == 5
    assert conformance(THRESHOLD, "--pulsar", "5.0").code == 0
    assert conformance(THRESHOLD, "--pulsar", "5.0.1").code == 0


def test_data_that_gzip_cannot_read_exits_2(tmp_path: Path) -> None:
    file, data = tmp_path / "vectors.jsonl.gz", THRESHOLD.read_bytes()
    file.write_bytes(data[:100] + b"\0" * 50 + data[150:])
    result = conformance(file)
    assert result.code == 2
    assert "get the file again" in result.err
