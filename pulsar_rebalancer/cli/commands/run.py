"""`rebalancer run`: runs the streaming job until it is stopped."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.service_log import Line, Log, end, log_of, measured
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import Stop, stopping
from sinks.metrics.service_metrics import file_topics
from streaming.checkpoint.guard import checkpoint_folder

if TYPE_CHECKING:
    from streaming.job import JobResult
    from streaming.progress import BatchProgress


def run(
    ctx: typer.Context,
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder for progress and state; overrides the setting."),
    ] = None,
    telemetry: options.Topic = None,
    commands: options.Topic = None,
    rounds: options.Topic = None,
    rejected: options.Topic = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark master, for example local[2,3] or spark://host:7077."
        ),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Process all present telemetry, then stop.")
    ] = False,
) -> None:
    """Run the streaming job: read telemetry, publish commands.

    Logs each micro-batch on standard error. SIGTERM and Ctrl-C finish the current micro-batch; the
    next start continues from the checkpoint. Exit code 0 after SIGTERM, 130 after Ctrl-C.
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
        log = log_of(settings)
        with log.errors(debug=options.debug(ctx)):
            result = _run(settings, log, stop, drain)
    stopped_by, written = stop.by or result.stopped_by, result.written
    end(log, stopped_by, f" after {written.in_words}", **asdict(written))


def _run(settings: Settings, log: Log, stop: Stop, drain: bool) -> "JobResult":
    from streaming.job import run_job
    from streaming.job_metrics import STILL_S, JobMetrics
    from streaming.outputs.counts_of_micro_batch import KINDS

    def warn(text: str) -> None:
        log.write(Line(text, level="warning"))

    strategy, mode = settings.engine.strategy, settings.engine.mode
    log.write(
        Line(
            f"starting: {strategy} ({mode}) on {settings.connections.topics.telemetry}",
            "starting",
            fields={"strategy": strategy, "mode": mode},
        )
    )
    for warning in settings.warnings:
        warn(warning)

    def report(batch: "BatchProgress") -> None:
        metrics.take(batch)
        log.write(Line(batch.line(), "micro-batch", fields=batch.fields()))

    topics = file_topics(settings.connections.topics, ["telemetry", *KINDS])
    with measured(
        settings,
        log,
        stop,
        lambda registry, liveness: JobMetrics(
            registry, settings.job.trigger_ms, liveness, warn=warn
        ),
        still_s=STILL_S,
        ready_after="a micro-batch",
        folders={"job.checkpoint": checkpoint_folder(settings.job), **topics},
    ) as metrics:
        return run_job(
            settings.job,
            settings.engine,
            drain=drain,
            on_progress=report,
            stop=stop,
            log=log.write,
            metrics=settings.metrics,
            on_poll=metrics.liveness.turned,
            in_release=(
                (lambda release: settings.in_release(release).engine)
                if settings.release_is_open
                else None
            ),
        )
