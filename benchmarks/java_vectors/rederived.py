"""Is the Java program to be trusted? It has to give back the answers that stored vectors hold."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.java_vectors.oracle import Oracle
from pulsar_rebalancer.lab.conformance.vectors import read_cases


def rederived(oracle: Oracle, file: Path) -> tuple[int, list[str]]:
    """How many cases a file holds, and which of them the program answers differently."""
    stored = [json.loads(case.line) for case in read_cases(file)]
    with TemporaryDirectory(prefix="rebalancer-java-") as folder:
        answered = Path(folder, "answered.jsonl")
        oracle.ask((json.dumps(_with_draws(case)).encode() + b"\n" for case in stored), answered)
        answers = [json.loads(line)["expect"] for line in answered.read_bytes().splitlines()]
    return len(stored), [
        case["id"]
        for case, answer in zip(stored, answers, strict=True)
        if _plain(case["expect"]) != _plain(answer)
    ]


def _with_draws(case: dict[str, Any]) -> dict[str, Any]:
    """Java's random draws are told to the program, so that it goes on as Java did."""
    for round_, answer in _rounds(case):
        for look_up, placed in zip(round_.get("place", ()), answer.get("placed", ()), strict=True):
            if placed["random"]:
                look_up["drawn"] = placed["chosen"]
    return case


def _rounds(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    if (case["suite"], case["strategy"]) == ("placement", "AvgShedder"):
        yield from zip(case["rounds"], case["expect"]["rounds"], strict=True)


def _plain(answer: Any) -> Any:
    """Numbers as doubles, −0.0 told from 0.0; the splits of a round are a set."""
    if isinstance(answer, dict):
        return {
            key: sorted(map(_plain, value)) if key == "splits" else _plain(value)
            for key, value in answer.items()
        }
    if isinstance(answer, list):
        return [_plain(item) for item in answer]
    if isinstance(answer, float) or (type(answer) is int and abs(answer) < 2**53):
        return str(float(answer))
    return answer
