"""Isolation patterns that match no live broker are named in each round."""

import gzip
import json
from pathlib import Path
from typing import Any, get_args

import pytest

from strategies.filters.isolation import unmatched
from strategies.settings import Mode
from strategies.shedding.registry import SHEDDERS
from tests.unit.command_line import rebalancer
from tests.world.placement import policies, policy

#: Brokers b0 (busy), b1 and b2, and the policy p1 that names b0 and b1 with their ports.
RECORDING = Path(__file__).parents[1] / "data" / "isolation-policy-with-ports.jsonl.gz"
LIVE = ("b0:8080", "b1:8080", "b2:8080")


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("strategy", sorted(SHEDDERS))
def test_every_strategy_names_them_in_each_round(tmp_path: Path, strategy: str, mode: str) -> None:
    rounds = rounds_of(
        tmp_path, RECORDING, f"shedding.strategy={strategy}", f"shedding.mode={mode}"
    )
    assert len(rounds) == 4
    assert [codes(one).count("isolation-unmatched") for one in rounds] == [1] * 4
    assert all("isolation-unmatched" not in one["state"]["text"] for one in rounds)


def test_with_the_rules_of_50_ids_match_and_nothing_is_named(tmp_path: Path) -> None:
    rounds = rounds_of(tmp_path, RECORDING, "pulsar.version=5.0")
    assert len(rounds) == 4
    assert [codes(one).count("isolation-unmatched") for one in rounds] == [0] * 4


def test_a_broker_without_figures_is_live(tmp_path: Path) -> None:
    """Only the sweep knows it; its pattern is right."""
    lines = gzip.decompress(RECORDING.read_bytes()).decode().splitlines()
    silent = [line for line in lines if '"broker": "b1.example.org:8080"' not in line]
    missing = '"missing": {"b1.example.org:8080": "silent"}'
    right = [
        line.replace('"missing": {}', missing)
        .replace('["b0.example.org:8080"]', '["b0.example.org"]')
        .replace('"secondary": ["b1.example.org:8080"]', '"secondary": ["b1.example.org"]')
        .replace('"b1.example.org:8080", "b2.example.org:8080"]', '"b2.example.org:8080"]')
        for line in silent
    ]
    assert len(silent) < len(lines)
    file = tmp_path / "silent.jsonl"
    file.write_text("\n".join(right) + "\n", "utf-8")
    rounds = rounds_of(tmp_path, file)
    assert len(rounds) == 4
    assert not any("isolation-unmatched" in codes(one) for one in rounds)


def rounds_of(folder: Path, recording: Path, *given: str) -> list[dict[str, Any]]:
    flags = [f"--set={one}" for one in given]
    answer = rebalancer("replay", recording, "--out", folder / "out", *flags)
    assert answer.code == 0, answer.words
    return [json.loads(line) for line in (folder / "out/rounds.jsonl").read_text().splitlines()]


def codes(one: dict[str, Any]) -> list[str]:
    return [skip["code"] for skip in one["skips"]]


def test_many_patterns_are_counted() -> None:
    view = policies(policy("p", ["t/.*"], [f"gone{number}" for number in range(60)]))
    said = unmatched(view, view.isolation[0], LIVE)
    assert said == unmatched(view, view.isolation[0], LIVE[::-1])
    assert "primary gone4 and others of isolation policy p" in said
    assert len(said) < 400


def test_many_policies_are_counted_in_a_round(tmp_path: Path) -> None:
    lines = gzip.decompress(RECORDING.read_bytes()).decode().splitlines()
    at = next(number for number, line in enumerate(lines) if '"policies"' in line)
    record = json.loads(lines[at])
    (one,) = record["report"]["isolation"].values()
    record["report"]["isolation"] = {f"p{number}": one for number in range(40)}
    lines[at] = json.dumps(record)
    (tmp_path / "many.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    first = rounds_of(tmp_path, tmp_path / "many.jsonl")[0]
    texts = [skip["text"] for skip in first["skips"] if skip["code"] == "isolation-unmatched"]
    assert (len(texts), texts[-1]) == (11, "other isolation policies have such patterns, too")
