"""`rebalancer drain`: moves all bundles off a broker, and keeps it empty; `rebalancer undrain` ends
that; `rebalancer intents`: drains, moves, splits and rolls, as the newest rounds say.
"""

from collections.abc import Iterator
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.cli.intent_session import (
    as_object,
    drained,
    in_groups,
    intent_session,
    left_of,
    say_record,
    say_status,
)
from pulsar_rebalancer.decisions.explain.explanation_lines import when
from pulsar_rebalancer.decisions.intents import (
    IntentError,
    newest_rounds,
    round_of_cluster,
    until_ms,
    what_of,
)
from sinks.graceful_stop import wall_clock_ms
from strategies.cluster.intent_records_and_states import LASTING, Intent, IntentStatus
from strategies.cluster.model import Round
from strategies.figures.texts_of_counts_names_and_ages import age


def drain(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker, host:port.")],
    *,
    reason: options.Why,
    by: options.Who = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When the drain ends by itself: after 90min, 2h, 1d, or at a time (UTC).",
        ),
    ] = None,
    together: Annotated[
        bool, typer.Option("--together", help="Drain it also while another broker is drained.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the broker is drained.")
    ] = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Move all bundles off a broker, within the limits of moves. The broker takes no bundle until
    `rebalancer undrain`, or the time of --until.

    Waits until the broker is drained. Ctrl-C ends the command, not the drain. Exit code 1 if the
    drain is refused, and nothing has changed; or if it has ended before the broker was drained.
    """
    settings = options.settings(config, overrides)
    end_ms = None if until is None else until_ms(until, wall_clock_ms())
    with intent_session(settings, cluster, by, reason) as session:
        record = session.record("drain", broker, until_ms=end_ms, together=together)
        session.write(session.judged(record))
        if no_wait:
            what = f"asked to drain {broker} as {record.by}; its progress: rebalancer intents"
            say_record(record, what, as_json=as_json)
            return
        session.note(f"asked to drain {broker} as {record.by}; waits for the next round", "asked")
        status = drained(session, record)
        _end(status, session.cluster, record, as_json=as_json)


def _end(status: IntentStatus, cluster: str, record: Intent, *, as_json: bool) -> None:
    broker, took = record.broker, age(status.since_ms - status.asked_ms)
    if status.state == "refused":  # by a later round than that which accepted the record
        raise IntentError(f"refused: {status.text}. {status.advice}")
    if status.state == "cancelled":
        raise IntentError(f"the drain of {broker} has ended before it was drained: {status.text}")
    keeps = f"It takes no bundle until `rebalancer undrain {broker}`."
    sentence = f"{broker} is drained after {took}: {status.text}. {keeps}"
    if status.state == "done":
        sentence = f"{broker} was drained, and the drain has ended: {status.text}."
    say_status(status, cluster, sentence, as_json=as_json)


def undrain(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker, host:port.")],
    *,
    reason: options.Why = "no longer needed",
    by: options.Who = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the drain has ended.")
    ] = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """End a drain: the broker may take bundles again. Bundles that have left do not come back by
    themselves: rounds give it load as to any other broker.

    Exit code 1 if the broker is not being drained, or belongs to a roll.
    """
    with intent_session(options.settings(config, overrides), cluster, by, reason) as session:
        record = session.record("undrain", broker)
        session.write(session.judged(record))
        what = f"asked to end the drain of {broker} as {record.by}"
        if no_wait:
            say_record(record, f"{what}; its answer: rebalancer intents", as_json=as_json)
            return
        session.note(f"{what}; waits for the next round", "asked")

        def ended(done: Round) -> IntentStatus | None:
            """The drain, once it has ended."""
            of_broker = [
                one for one in done.intents if (one.action, one.broker) == ("drain", broker)
            ]
            lasts = any(one.state in LASTING for one in of_broker)
            return None if lasts or not of_broker else of_broker[-1]

        status = session.answered(record, ended)
        sentence = f"the drain of {broker} has ended ({status.state}): {status.text}"
        say_status(status, session.cluster, sentence, as_json=as_json)


def intents(
    *,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Show drains, moves, splits and rolls by the newest round of each cluster: those that last,
    and those that ended or were refused within the last hour.
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
        console.say(f"no drain, move, split or roll of {names} in the last hour")
        return
    console.show(_table(shown, now_ms))
    for whats, details in in_groups((what_of(one), tuple(_details(one))) for _, one in shown):
        if details:
            console.say(f"{whats}: {details[0]}", *details[1:])


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
    """Lines that a table cannot hold: sentences, and a roll's brokers."""
    if status.state not in (*LASTING, "refused"):
        return
    yield status.text
    if status.state in ("drained", "blocked", "halted", "refused"):
        yield f"  {status.advice}"
    if status.until_ms is not None and status.state in LASTING:
        yield f"  ends by itself at {when(status.until_ms)}"
    if status.state in ("rolling", "halted"):
        for broker, phase in sorted(status.phases.items()):
            yield f"  {broker}  {phase}"
