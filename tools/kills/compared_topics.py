"""Compares the output topics of a job that was killed with those of one that was not: repeated
publications are fine, nothing else is.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: What makes a record of a topic that one record, however often it is published.
IDENTITY = {
    "commands": ("id",),
    "rounds": ("cluster", "epoch", "round"),
    "rejected": ("topic", "partition", "offset"),
}
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One topic against its reference; everything that is wrong is in `faults`.

    `records`: different ones; `repeated`: further publications of them; `torn`: lines that a killed
    writer left unfinished.
    """

    topic: str
    records: int
    repeated: int
    torn: int
    faults: tuple[str, ...]


def compare(topic: str, found: Sequence[bytes], wanted: Sequence[bytes]) -> Comparison:
    """`found` without repetitions must be `wanted`, in the same order."""
    whole, torn, faults = _whole_lines(found)
    kept: dict[Key, bytes] = {}
    for line in whole:
        key = _key(topic, line)
        if kept.setdefault(key, line) != line:
            faults.append(f"{topic}: {key} was published with two contents")
    reference = {_key(topic, line): line for line in wanted}
    faults += [f"{topic}: {key} is missing" for key in reference.keys() - kept.keys()]
    faults += [f"{topic}: {key} should not be there" for key in kept.keys() - reference.keys()]
    faults += [
        f"{topic}: {key} has another content"
        for key in reference.keys() & kept.keys()
        if kept[key] != reference[key]
    ]
    if not faults and list(kept) != list(reference):
        faults.append(f"{topic}: the order differs")
    return Comparison(topic, len(kept), len(whole) - len(kept), torn, tuple(faults))


def _whole_lines(found: Sequence[bytes]) -> tuple[list[bytes], int, list[str]]:
    """Complete records; how many lines are torn; those that are neither a record nor the beginning
    of one that came whole later.
    """
    whole, torn, faults = [], 0, []
    for number, line in enumerate(found):
        if _is_record(line):
            whole.append(line)
        elif any(later.startswith(line) for later in found[number + 1 :]):
            torn += 1
        else:
            faults.append(
                f"line {number + 1} is no record, and no later line completes it: {line[:80]!r}"
            )
    return whole, torn, faults


def _is_record(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _key(topic: str, line: bytes) -> Key:
    tree = json.loads(line)
    return tuple(tree[name] for name in IDENTITY[topic])
