"""The comparison as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from cli import console
from cli.explain.sentences import formatted
from cli.shadow.agreement import Agreement, Pair


def sentence(agreement: Agreement) -> str:
    """The whole comparison in one."""
    if not agreement.pairs:
        return "Neither Pulsar's shedder nor ours moved a bundle."
    lag = agreement.lag_ms
    late = (
        "" if lag is None else f"; ours decided {abs(lag) / 1000:.0f} s {'after' if lag >= 0 else 'before'} Pulsar's move was seen (median)"
    )
    both, theirs, ours = (agreement.count(verdict) for verdict in ("both", "only Pulsar", "only ours"))
    parts = f"{both} by both, {theirs} only by Pulsar, {ours} only by ours"
    return f"Bundles: {parts}: agreement {agreement.by_bundle:.0%}, of brokers {agreement.by_broker:.0%}{late}."


def tables(agreement: Agreement) -> Iterator[RenderableType]:
    """Brokers, then bundles."""
    if not agreement.pairs:
        return
    columns: list[tuple[str, console.Side]] = [
        ("cluster", "left"),
        ("from broker", "left"),
        ("both", "right"),
        ("only Pulsar", "right"),
        ("only ours", "right"),
    ]
    counted = [[row.cluster, row.broker, str(row.both), str(row.only_pulsar), str(row.only_ours)] for row in agreement.brokers()]
    yield console.Sheet(columns, counted)
    headings: list[tuple[str, console.Side]] = [(name, "left") for name in ("when", "bundle", "verdict", "moves", "lag", "why")]
    yield console.Sheet(
        headings, [[_time(pair.ts), pair.bundle, pair.verdict, _moves(pair), _lag(pair), pair.why] for pair in agreement.pairs]
    )


def as_json(agreement: Agreement) -> dict[str, Any]:
    """Every figure by name; times in ms, parts 0–1."""
    return {
        "both": agreement.count("both"),
        "only_pulsar": agreement.count("only Pulsar"),
        "only_ours": agreement.count("only ours"),
        "agreement_by_bundle": agreement.by_bundle,
        "agreement_by_broker": agreement.by_broker,
        "median_lag_ms": agreement.lag_ms,
        "brokers": [
            {"cluster": row.cluster, "broker": row.broker, "both": row.both, "only_pulsar": row.only_pulsar, "only_ours": row.only_ours}
            for row in agreement.brokers()
        ],
        "bundles": [_fields(pair) for pair in agreement.pairs],
    }


def _fields(pair: Pair) -> dict[str, Any]:
    moved, wanted = pair.moved, pair.wanted
    return {
        "cluster": pair.cluster,
        "bundle": pair.bundle,
        "source": pair.source,
        "verdict": pair.verdict.replace(" ", "-").lower(),
        "pulsar": None if moved is None else {"ts": moved.ts, "source": moved.source, "destination": moved.destination},
        "ours": None
        if wanted is None
        else {
            "ts": wanted.issued_at_ms,
            "command": wanted.id,
            "round": wanted.round,
            "source": wanted.source,
            "destination": wanted.destination,
            "reason": f"{wanted.code}: {wanted.text}",
        },
        "lag_ms": pair.lag_ms,
        "same_destination": pair.same_destination,
        "why": pair.why,
    }


def _moves(pair: Pair) -> str:
    lines = []
    if pair.moved is not None:
        lines.append(f"Pulsar: {pair.moved.source} → {pair.moved.destination}")
    if pair.wanted is not None:
        lines.append(f"ours: {pair.wanted.source} → {pair.wanted.destination or '?'}")
    return "\n".join(lines)


def _lag(pair: Pair) -> str:
    return "" if pair.lag_ms is None else f"{pair.lag_ms / 1000:+.0f} s"


def _time(ts: int) -> str:
    return formatted(ts, "%H:%M:%S")
