"""`rebalancer move`: moves one bundle by hand, on the road of all moves."""

from collections.abc import Iterator
from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.intent_session import (
    IntentSession,
    intent_session,
    say_record,
    say_status,
)
from pulsar_rebalancer.decisions.intents import IntentError
from strategies.cluster.intent_records_and_states import ENDED, Intent, IntentStatus


def move(
    bundle: Annotated[
        str, typer.Argument(metavar="BUNDLE", help="The bundle, tenant/namespace/0x…_0x….")
    ],
    *,
    reason: options.Why,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="BROKER", help="The destination, host:port; default: any."),
    ] = None,
    by: options.Who = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until the bundle has moved.")
    ] = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Move a bundle to a broker, or away from where it is, within the limits of moves.

    Waits until it has moved. Ctrl-C ends the command, not the move. Exit code 1 if the bundle does
    not move: policies, filters or limits object for 15 minutes, or no executor carries it out.
    """
    settings = options.settings(config, overrides)
    with intent_session(settings, cluster, by, reason) as session:
        record = session.record("move", to, bundle=bundle)
        session.write(session.judged(record))
        where = f" to {to}" if to else ""
        if no_wait:
            what = f"asked to move {bundle}{where} as {record.by}; its progress: rebalancer intents"
            say_record(record, what, as_json=as_json)
            return
        session.note(f"asked to move {bundle}{where} as {record.by}", "asked")
        for status in _statuses(session, record):
            session.note(f"{status.state}: {status.text}", status.state)
        if status.state != "done":
            raise IntentError(f"{bundle} has not moved: {status.text}. {status.advice}")
        say_status(status, session.cluster, f"{bundle}: {status.text}.", as_json=as_json)


def _statuses(session: IntentSession, record: Intent) -> Iterator[IntentStatus]:
    """The states of a move that are news, until it has ended."""
    status = session.answered(record)
    yield status
    how = "the move goes on; its progress: rebalancer intents"
    for done in session.rounds(how):
        for one in (one for round_ in done for one in round_.intents if one.id == record.id):
            if (one.state, one.text) != (status.state, status.text):
                status = one
                yield status
        if status.state in ENDED:
            return
