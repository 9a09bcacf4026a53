"""`rebalancer intents`: drains and rolls, as the newest rounds say."""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.cli.intents import as_object, left_of
from pulsar_rebalancer.decisions.explain.sentences import when
from pulsar_rebalancer.decisions.intents import newest_rounds, round_of_cluster, what_of
from sinks.wall_clock import wall_clock_ms
from strategies.cluster.intent_contract import LASTING, IntentStatus
from strategies.cluster.model import Round
from strategies.figures.describe import age


def intents(
    *,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show drains and rolls by the newest round of each cluster: those that last, and those that
    ended or were refused within the last hour.
    """
    settings = options.installation(config, overrides)
    now_ms = wall_clock_ms()
    rounds = newest_rounds(settings.connections, now_ms)
    if cluster is not None or not rounds:
        done = round_of_cluster(rounds, cluster or "", settings.connections.topics.rounds)
        rounds = {done.cluster: done}
    if as_json:
        console.print_json(
            "intents", 1, {"now_ms": now_ms, "clusters": list(map(_object, rounds.values()))}
        )
        return
    shown = [(done, one) for done in rounds.values() for one in done.intents]
    if not shown:
        names = ", ".join(rounds)
        console.say(f"no drain or roll of {names} in the last hour")
        return
    console.show(_table(shown, now_ms))
    for _, one in shown:
        for line in _details(one):
            console.say(line)


def _object(done: Round) -> dict[str, object]:
    return {
        "cluster": done.cluster,
        "round": done.round,
        "epoch": done.epoch,
        "ts": done.ts,
        "intents": [as_object(one) for one in done.intents],
    }


def _table(shown: list[tuple[Round, IntentStatus]], now_ms: int) -> console.Sheet:
    rows = [
        [
            what_of(one),
            done.cluster,
            one.state,
            left_of(one),
            age(now_ms - one.since_ms),
            one.by,
            one.reason,
        ]
        for done, one in shown
    ]
    return console.Sheet(
        [
            ("intent", "left"),
            ("cluster", "left"),
            ("state", "left"),
            ("bundles left", "left"),
            ("since", "right"),
            ("by", "left"),
            ("reason", "left"),
        ],
        rows,
    )


def _details(status: IntentStatus) -> Iterator[str]:
    """What a table cannot hold: sentences, and a roll's brokers."""
    if status.state not in (*LASTING, "refused"):
        return
    yield f"{what_of(status)}: {status.text}"
    if status.state in ("drained", "blocked", "halted", "refused"):
        yield f"  {status.advice}"
    if status.until_ms is not None and status.state in LASTING:
        yield f"  ends by itself at {when(status.until_ms)}"
    if status.state in ("rolling", "halted"):
        for broker, phase in sorted(status.phases.items()):
            yield f"  {broker}  {phase}"
