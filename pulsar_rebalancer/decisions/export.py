"""The log of decisions as flat tables: usage of brokers, moves, plans, outcomes."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import reduce
from types import SimpleNamespace
from typing import Any, Literal

from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.plans import plans_of
from sinks.printable import printable
from strategies.figures.usage_after_moves import reported_usage

Table = Literal["usage", "moves", "plans", "outcomes"]
#: Table → its columns, each with its type and its path in a record of `_RECORDS`. `time`: UTC, ISO
#: 8601; `time_ms`: the same in ms, as all times and durations that end with `_ms`. Usage and spread
#: are fractions (1.0 = 100 %). What is not known is empty.
COLUMNS: Mapping[Table, Mapping[str, tuple[type, str]]] = {
    # One row per round and broker. `usage`: with moves that are only commanded, `reported`: without
    # them; `usage_after`: as expected after the round's commands; `state`: code of the round.
    "usage": {
        "time": (str, "round.ts"),
        "time_ms": (int, "round.ts"),
        "cluster": (str, "round.cluster"),
        "epoch": (int, "round.epoch"),
        "round": (int, "round.round"),
        "broker": (str, "broker"),
        "usage": (float, "usage"),
        "reported": (float, "reported"),
        "usage_after": (float, "usage_after"),
        "state": (str, "round.state.code"),
    },
    # One row per unload or transfer. From `source_before` on: expected usage of both brokers, then
    # the decisive outcome.
    "moves": {
        "time": (str, "command.issued_at_ms"),
        "time_ms": (int, "command.issued_at_ms"),
        "cluster": (str, "command.cluster"),
        "epoch": (int, "command.epoch"),
        "round": (int, "command.round"),
        "command_id": (str, "command.id"),
        "action": (str, "command.action"),
        "bundle": (str, "command.bundle"),
        "source": (str, "command.source"),
        "destination": (str, "command.destination"),
        "strategy": (str, "command.strategy"),
        "code": (str, "command.code"),
        "text": (str, "command.text"),
        "source_before": (float, "command.expected.source_before"),
        "source_after": (float, "command.expected.source_after"),
        "destination_before": (float, "command.expected.destination_before"),
        "destination_after": (float, "command.expected.destination_after"),
        "status": (str, "outcome.status"),
        "reason": (str, "outcome.reason"),
        "owner_after": (str, "outcome.owner_after"),
        "outcome_ms": (int, "outcome.ts"),
    },
    # One row per round with commands. `spread`: highest less lowest usage; from `decision` on: what
    # a person decided.
    "plans": {
        "time": (str, "plan.ts"),
        "time_ms": (int, "plan.ts"),
        "cluster": (str, "plan.cluster"),
        "epoch": (int, "plan.epoch"),
        "round": (int, "plan.round"),
        "plan_id": (str, "plan.id"),
        "strategy": (str, "plan.strategy"),
        "state": (str, "plan.state"),
        "commands": (int, "commands"),
        "spread_before": (float, "plan.spread_before"),
        "spread_after": (float, "plan.spread_after"),
        "expires_at_ms": (int, "plan.expires_at_ms"),
        "decision": (str, "plan.decision.action"),
        "by": (str, "plan.decision.by"),
        "reason": (str, "plan.decision.reason"),
    },
    # One row per outcome. From `unowned_ms` on: what the move cost its clients.
    "outcomes": {
        "time": (str, "ts"),
        "time_ms": (int, "ts"),
        "cluster": (str, "cluster"),
        "command_id": (str, "command_id"),
        "bundle": (str, "bundle"),
        "status": (str, "status"),
        "reason": (str, "reason"),
        "owner_before": (str, "owner_before"),
        "owner_after": (str, "owner_after"),
        "took_ms": (int, "took_ms"),
        "unowned_ms": (int, "cost.unowned_ms"),
        "first_message_ms": (int, "cost.first_message_ms"),
        "topics": (int, "cost.topics"),
        "unloads": (int, "cost.unloads"),
        "manager": (str, "cost.manager"),
    },
}
_RECORDS: Mapping[Table, Callable[[DecisionLog, int], Iterable[object]]] = {
    "usage": lambda log, _: (
        SimpleNamespace(
            round=done,
            broker=broker,
            usage=usage,
            reported=reported_usage(done)[broker],
            usage_after=done.usage_after.get(broker),
        )
        for done in log.rounds
        for broker, usage in done.usage.items()
    ),
    "moves": lambda log, _: (
        SimpleNamespace(command=one, outcome=log.outcome_of(one))
        for one in log.commands
        if one.is_move
    ),
    "plans": lambda log, now_ms: (
        SimpleNamespace(plan=one, commands=len(one.commands)) for one in plans_of(log, now_ms)
    ),
    "outcomes": lambda log, _: log.outcomes,
}


def rows_of(table: Table, log: DecisionLog, now_ms: int) -> list[dict[str, Any]]:
    """The rows of a table in the order of time. `now_ms`: since the epoch, for plans that
    expire.
    """
    return sorted(
        (
            {column: _cell(column, record, path) for column, (_, path) in COLUMNS[table].items()}
            for record in _RECORDS[table](log, now_ms)
        ),
        key=lambda row: int(row["time_ms"]),
    )


def _cell(column: str, record: Any, path: str) -> Any:
    """The field that a path names, text as one line; None below a field that is None."""
    value = reduce(lambda part, name: getattr(part, name, None), path.split("."), record)
    if isinstance(value, str):
        return printable(value)
    return (
        value
        if column != "time"
        else datetime.fromtimestamp(value / 1000, UTC).isoformat("T", "milliseconds")[:-6] + "Z"
    )
