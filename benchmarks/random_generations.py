"""Draws what happens in `random-generations.toml`: a new state of the cluster every few minutes."""

from collections.abc import Mapping
from random import Random
from typing import Any

#: Minutes of a generation, and their number in one run.
LENGTH, COUNT = 20, 50
_BROKERS = [f"broker-{number}" for number in range(1, 11)]
#: At least this many brokers stay; load relative to what eight of them can carry.
_FEWEST, _LOAD = 6, (0.3, 1.2)


def generations(seed: int) -> Mapping[str, Any]:
    """The changed keys of the scenario for this seed."""
    draw, present, happenings = Random(seed), set(_BROKERS), []
    load, hot = list[tuple[int, float]](), list[tuple[int, float]]()
    for number in range(COUNT):
        minute = LENGTH * number
        wanted = set(draw.sample(_BROKERS, draw.randint(_FEWEST, len(_BROKERS))))
        for kind, names in (("leave", present - wanted), ("join", wanted - present)):
            if names and number:
                happenings.append({"minute": minute, "kind": kind, "brokers": sorted(names)})
        present = wanted if number else present
        load.append((minute, draw.uniform(*_LOAD)))
        hot.append((minute, float(draw.random() < 0.5)))
    return {
        "minutes": LENGTH * COUNT,
        "happenings": happenings,
        "traffic": [
            _flow("all", 1300.0, 1024, load),
            _flow("hot", 20.0, 1, hot),
        ],
    }


def _flow(name: str, mib: float, partitions: int, at: list[tuple[int, float]]) -> dict[str, Any]:
    return {
        "name": name,
        "mib_in": mib,
        "fan_out": 1,
        "partitions": partitions,
        "wave": {"kind": "steps", "at": at},
    }
