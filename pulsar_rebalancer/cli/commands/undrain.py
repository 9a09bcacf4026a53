"""`rebalancer undrain`: ends a drain."""

from __future__ import annotations

from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.intents import intent_session, say_record, say_status
from strategies.cluster.intent_contract import LASTING, IntentStatus
from strategies.cluster.model import Round

app = typer.Typer()


@app.command("undrain", short_help="End a drain: the broker may take bundles again.")
def undrain_command(
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker, host:port.")],
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason, for the record.")
    ] = "no longer needed",
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
    settings = options.settings(config, overrides)
    with intent_session(settings, cluster, by, reason) as session:
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
