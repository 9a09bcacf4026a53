"""`rebalancer run`: the streaming job until it is stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import console, exits, options
from cli.stopping import stopping

app = typer.Typer()

Topic = Annotated[str | None, typer.Option(metavar="URI", help="Topic, for example file:///folder; overrides the setting.")]


@app.command()
def run(
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="Folder for progress and state; overrides the setting.")] = None,
    telemetry: Topic = None,
    commands: Topic = None,
    rounds: Topic = None,
    rejected: Topic = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Where Spark runs, for example local[2,3] or spark://host:7077.")
    ] = None,
    drain: Annotated[bool, typer.Option("--drain", help="Stop when all telemetry there is has been processed.")] = False,
) -> None:
    """Run the streaming job: telemetry in, commands out, until it is stopped.

    Each micro-batch is told on standard error. SIGTERM and Ctrl-C finish the micro-batch that is being worked on; the next start goes on
    from the checkpoint. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    places = options.flags(
        job__checkpoint=checkpoint,
        job__master=master,
        topics__telemetry=telemetry,
        topics__commands=commands,
        topics__rounds=rounds,
        topics__rejected=rejected,
    )
    with stopping() as stop:
        settings = options.settings(config, overrides, *places)
        from streaming.job import run_job

        console.progress(f"starting: {settings.engine.strategy} ({settings.engine.mode}) on {settings.job.topics.telemetry}")
        tell = console.progress
        result = run_job(
            settings.job,
            settings.engine,
            drain=drain,
            on_progress=lambda batch: tell(batch.line()),
            stop=stop,
            say=tell,
        )
    stopped_by = stop.by or result.stopped_by
    written = result.written
    console.progress(
        f"stopped ({stopped_by}) after {written.rounds} rounds, {written.commands} commands, {written.rejected} rejected records"
    )
    if stopped_by == "SIGINT":
        raise typer.Exit(exits.INTERRUPTED)
