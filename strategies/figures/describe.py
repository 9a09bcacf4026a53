"""Formats each decision and each skip as one printable line; golden files, logs, dry runs and
`explain` share this format.
"""

from __future__ import annotations

from collections.abc import Sequence

from strategies.cluster.intent_contract import IntentStatus
from strategies.cluster.model import Command, Expected, Round, Skip
from strategies.figures.reported import expected_spread, reported_spread

#: Number of names of a skip that are printed; the rest is counted.
_NAMES = 4
#: Milliseconds of the units of a duration.
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def describe_command(command: Command) -> str:
    """`round 3 transfer t/ns/0x0_0x1: a:1 → b:1 (87.1 % → 79.0 %, 12.0 % → 20.1 %) because …`"""
    where = (
        command.source
        if command.destination is None
        else f"{command.source} → {command.destination}"
    )
    effect = _effect(command.expected) if command.is_move else _load(command.expected)
    return (
        f"round {command.round} {command.action} {command.bundle}: {where} ({effect}) because "
        f"{command.text}"
    )


def describe_round(record: Round) -> str:
    """`round 3 at 1795218520614 (sweep): 8 brokers, spread 61.2 → 40.0 points, 5 commands, 7 left
    alone`
    """
    stale = f", {len(record.stale)} stale" if record.stale else ""
    left = sum(len(skip.names) for skip in record.skips)
    return (
        f"round {record.round} at {record.ts} ({record.closed_by}): "
        f"{counted(len(record.brokers), 'broker')}{stale}, "
        f"spread {reported_spread(record) * 100:.1f} → {expected_spread(record) * 100:.1f} points"
        f"{counted_with(record.counted)}, "
        f"{counted(len(record.commands), 'command')}, {left} left alone"
    )


def counted_with(moves: int) -> str:
    """` with 2 earlier moves that reports do not show yet`: what an expected figure counts as done
    besides the commands of its own round; empty without such moves.
    """
    return f" with {counted(moves, 'earlier move')} that reports do not show yet" if moves else ""


def describe_skip(skip: Skip) -> str:
    """`left alone broker a:1, b:1 [below-threshold]: …`"""
    names = first_of(skip.names, _NAMES)
    on = f" on {skip.broker}" if skip.broker else ""
    return f"left alone {skip.subject} {names}{on} [{skip.code}]: {skip.text}"


def describe_intent(status: IntentStatus) -> str:
    """`drain of a:1 (Ann: new disks) is draining: 6 of 10 bundles are left, 4 on their way; about
    90 s left, give or take 30 s. Nothing to do: the next rounds go on.`
    """
    about = f" of {status.broker}" if status.broker is not None else ""
    left = ""
    if status.left_ms is not None and status.error_ms is not None:
        left = (
            f"; about {status.left_ms / 1000:.0f} s left, give or take "
            f"{status.error_ms / 1000:.0f} s"
        )
    return (
        f"{status.action}{about} ({status.by}: {status.reason}) is {status.state}: "
        f"{status.text}{left}. {status.advice}"
    )


def _effect(expected: Expected) -> str:
    parts = [
        f"{before * 100:.1f} % → {after * 100:.1f} %"
        for before, after in (
            (expected.source_before, expected.source_after),
            (expected.destination_before, expected.destination_after),
        )
        if before is not None and after is not None
    ]
    return ", ".join(parts) if parts else "effect unknown"


def _load(expected: Expected) -> str:
    """Usage of the broker where no bundle moves, as in a split or advice."""
    return (
        "usage unknown"
        if expected.source_before is None
        else f"at {expected.source_before * 100:.1f} %"
    )


def counted(number: int, noun: str) -> str:
    """`1 bundle`, `5,000 bundles`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def first_of(names: Sequence[str], most: int) -> str:
    """`a, b, c and 2 more`, with at most `most` names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def age(ms: int) -> str:
    """`12 s`, `3 min`, `2 h`, `5 d`; a time in the future counts as 0 s."""
    for unit, size in _UNITS:
        if ms >= 2 * size:
            return f"{ms // size} {unit}"
    return f"{max(0, ms) // 1000} s"
