"""Outcomes as lines for people."""

from __future__ import annotations

from collections import Counter

from rebalancer.cli.log_lines import Line
from sinks.executor.publish import Done

_WIDEST_STATUS = len("already-done")


def line(done: Done) -> Line:
    """`applied       transfer t/ns/0x…: a:1 → b:1 in 120 ms`, with the reason behind it where there
    is one.
    """
    command, outcome = done.task.command, done.outcome
    where = (
        command.source
        if command.destination is None
        else f"{command.source} → {command.destination}"
    )
    took = f" in {outcome.took_ms} ms" if outcome.status == "applied" else ""
    why = f" [{outcome.reason}]" if outcome.reason else ""
    text = (
        f"{outcome.status:<{_WIDEST_STATUS}}  {command.action} {command.bundle}: {where}{took}{why}"
    )
    names = {
        "command": command.id,
        "action": command.action,
        "bundle": command.bundle,
        "from": command.source,
        "to": command.destination,
    }
    return Line(
        text,
        "outcome",
        fields={
            **names,
            "status": outcome.status,
            "reason": outcome.reason,
            "took_ms": outcome.took_ms,
        },
    )


def summary(counts: Counter[str]) -> str:
    """`3 applied, 1 refused`"""
    return (
        ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
        or "no commands"
    )
