"""Exact comparison of Java's answers with ours: doubles bit for bit, lists in order, mappings by
key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Final, Literal

from pulsar_rebalancer.lab.conformance.suites import Suite, suite_of
from pulsar_rebalancer.lab.conformance.vectors import Case
from strategies.errors import SettingsError

#: Placeholder for a field that one side lacks.
ABSENT: Final = "(absent)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between the answers. `round` counts from 1; `field`: a path such as
    `ema[b1:1]`.
    """

    case: str
    round: int
    field: str
    expected: str
    got: str


def differences(
    case: str, round_: int, expected: Mapping[str, Any], got: Mapping[str, Any]
) -> list[Difference]:
    """All differences between two answers of a round, fields that one side lacks included."""
    return [
        Difference(case, round_, path, _shown(wanted), _shown(answered))
        for field in dict.fromkeys((*expected, *got))
        for path, wanted, answered in _walk(
            field, expected.get(field, ABSENT), got.get(field, ABSENT)
        )
    ]


def _walk(path: str, expected: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
    """Leaves that differ. The type of our value decides how Java's is read: Java writes doubles as
    numbers or names such as NaN.
    """
    if isinstance(got, Mapping) and isinstance(expected, Mapping):
        for key in dict.fromkeys((*expected, *got)):
            yield from _walk(f"{path}[{key}]", expected.get(key, ABSENT), got.get(key, ABSENT))
    elif (
        isinstance(got, list | tuple)
        and isinstance(expected, list | tuple)
        and len(got) == len(expected)
    ):
        for index, (wanted, answered) in enumerate(zip(expected, got, strict=True)):
            yield from _walk(f"{path}[{index}]", wanted, answered)
    elif not _identical(expected, got):
        yield path, expected, got


def _identical(expected: Any, got: Any) -> bool:
    if isinstance(got, float):
        wanted = _as_double(expected)
        return wanted is not None and _bits(wanted) == _bits(got)
    return type(expected) is type(got) and bool(expected == got)


def _as_double(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else None


def _bits(value: float) -> bytes:
    return b"NaN" if isnan(value) else struct.pack("<d", value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and not value:
        return "(nothing)"
    return repr(value)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went. `differences` are those of its first round that differs: what follows from a
    difference says nothing new.
    """

    case: str
    suite: str
    strategy: str
    rounds: int
    result: Literal["identical", "different"]
    differences: tuple[Difference, ...] = ()


def compare(case: Case) -> CaseResult:
    """Plays one case and compares round by round, up to the first that differs."""
    envelope = case.envelope
    rounds, found = _play(case, suite_of(case))
    return CaseResult(
        envelope.id,
        envelope.suite,
        envelope.strategy,
        rounds,
        "different" if found else "identical",
        tuple(found),
    )


def _play(case: Case, suite: Suite) -> tuple[int, list[Difference]]:
    number = 0
    try:
        for number, (expected, got) in enumerate(suite(case), start=1):
            if found := differences(case.envelope.id, number, expected, got):
                return number, found
    except SettingsError as error:
        raise SettingsError(
            [
                text if text.startswith(case.where) else f"{case.where}: {text}"
                for text in error.complaints
            ]
        ) from error
    return number, []
