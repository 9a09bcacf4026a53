"""`rebalancer execute`: carries out commands on a Pulsar cluster, or says what it would do."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from cli import console, exits, options
from cli.execute.assembly import assembled
from cli.execute.lines import line, summary
from cli.stopping import Stop, stopping
from sinks.executor import Done, Executor, Stopped
from sinks.wire import encode_outcome

app = typer.Typer()

Topic = Annotated[str | None, typer.Option(metavar="URI", help="Topic, for example file:///folder; overrides the setting.")]


@app.command()
def execute(
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Carry commands out. Without it nothing is changed.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop when all commands there are have been worked off.")] = False,
    commands: Topic = None,
    outcomes: Topic = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each outcome as the JSON record that is published.")] = False,
) -> None:
    """Carry out commands on a Pulsar cluster; without --apply, say what would be done.

    Reads the control topic in order and publishes one outcome per command. SIGTERM and Ctrl-C finish the commands at hand. Exit code 0
    after SIGTERM, 130 after Ctrl-C.
    """
    settings = options.settings(config, overrides, *options.flags(topics__commands=commands, topics__outcomes=outcomes))
    counts: Counter[str] = Counter()

    def tell(done: Done) -> None:
        counts[done.outcome.status] += 1
        print(encode_outcome(done.outcome).decode() if as_json else line(done), flush=True)

    with stopping() as stop, assembled(settings, apply, stop.wait, tell) as ready:
        mode = "carrying out" if apply else "dry run, nothing is changed (add --apply): reading"
        keyed = "signed commands only" if ready.signed else "signatures are not checked"
        console.progress(f"{mode} commands for {settings.pulsar.cluster}, {len(ready.brokers)} brokers, {keyed}")
        _work(ready.executor, stop, once)
    console.progress(f"stopped ({stop.by or 'all worked off'}) after {summary(counts)}")
    if stop.by == "SIGINT":
        raise typer.Exit(exits.INTERRUPTED)


def _work(executor: Executor, stop: Stop, once: bool) -> None:
    try:
        executor.recover()
        while not stop.is_set():
            if executor.step() == 0 and once:
                return
    except Stopped:
        return
