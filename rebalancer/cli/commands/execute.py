"""`rebalancer execute`: applies commands to a Pulsar cluster, or shows what it would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from rebalancer.cli import exit_codes, options
from rebalancer.cli.executor_assembly import Assembled, assembled
from rebalancer.cli.log_lines import Line, Log
from rebalancer.cli.metrics_server import metrics_served
from rebalancer.settings.load import Settings
from sinks.executor.executor import Stopped
from sinks.executor.publish import Done
from sinks.executor.settings import state_folder
from sinks.metrics.disk import DiskMetrics, file_topics
from sinks.metrics.executor import ExecutorMetrics
from sinks.metrics.labels import process_registry
from sinks.metrics.liveness import Liveness
from sinks.stopping import Stop, stopping
from sinks.topics.retry_backoff import RetryBackoff
from sinks.topics.watch import watched
from sinks.wire.codec import encode_outcome
from strategies.errors import SinkError

app = typer.Typer()
_WIDEST_STATUS = len("already-done")
#: What calls to Pulsar, with their repetitions, may take at most in one step.
_STILL_S = 300.0


@app.command()
def execute(
    ctx: typer.Context,
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply commands. Without it nothing is changed.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Process all present commands, then stop.")
    ] = False,
    commands: options.Topic = None,
    outcomes: options.Topic = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print each outcome as the JSON record that is published."),
    ] = False,
) -> None:
    """Apply commands to a Pulsar cluster; without --apply, a dry run.

    Reads the control topic in order and publishes one outcome per command. SIGTERM and Ctrl-C
    finish the current commands. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    settings = options.settings(
        config, overrides, *options.flags(topics__commands=commands, topics__outcomes=outcomes)
    )
    counts: Counter[str] = Counter()

    log = Log(settings.log)

    def report(done: Done) -> None:
        counts[done.outcome.status] += 1
        metrics.published(done)
        if as_json:
            print(encode_outcome(done.outcome).decode(), flush=True)
        else:
            log.show(outcome_line(done))

    connections = settings.connections
    with stopping() as stop, log.errors(debug=options.debug(ctx)), ExitStack() as stack:
        metrics = stack.enter_context(_measured(settings, stop, log))
        wait = metrics.liveness.turning(stop.wait)
        outage = RetryBackoff(connections.kafka.outage_ms / 1000, wait, log.write)
        begun = False
        while not stop.is_set():
            try:
                with assembled(
                    settings, apply, stop.wait, report, log.warn, on_refused=metrics.refused
                ) as ready:
                    if not begun:
                        log.write(
                            Line(
                                _what_it_does(ready, apply, connections.pulsar.cluster),
                                "starting",
                                fields={"apply": apply},
                            )
                        )
                        stack.enter_context(
                            watched(
                                [topic for _, topic in connections.topics.named()],
                                connections.access,
                                outage,
                            )
                        )
                    begun = True
                    _work(ready, stop, once, outage, metrics)
                break
            except SinkError as error:
                if not begun:
                    raise
                # Unfinished commands are read again from the topics and the journal, as after a
                # restart.
                outage.wait_or_raise(error)
    by = stop.by or "all done"
    log.write(
        Line(
            f"stopped ({by}) after {summary(counts)}",
            "stopped",
            fields={"by": by, "outcomes": dict(counts)},
        )
    )
    if stop.by == "SIGINT":
        raise typer.Exit(exit_codes.INTERRUPTED)


def _what_it_does(ready: Assembled, apply: bool, cluster: str) -> str:
    mode = "applying" if apply else "dry run, nothing is changed (add --apply): reading"
    keyed = "signed commands only" if ready.signed else "signatures are not checked"
    return f"{mode} commands for {cluster}, {len(ready.brokers)} brokers, {keyed}"


@contextmanager
def _measured(settings: Settings, stop: Stop, log: Log) -> Iterator[ExecutorMetrics]:
    """The metrics of the executor, served if the settings say so."""
    liveness = Liveness(_still_s(settings), "a step", is_stopping=stop.is_set)
    registry = process_registry(settings.engine.version)
    topics = settings.connections.topics
    written = file_topics(topics, [name for name, _ in topics.named()])
    DiskMetrics(registry, {"executor.state": state_folder(settings.executor), **dict(written)})
    with metrics_served(settings.metrics, registry, liveness, log.write):
        yield ExecutorMetrics(registry, settings.connections.pulsar.cluster, liveness)


def _still_s(settings: Settings) -> float:
    """Longest time (s) between two steps of a loop that works: its commands wait for their turn
    and for new owners.
    """
    given = settings.executor
    turns_s = given.max_concurrent * 60 / given.max_per_minute if given.max_per_minute else 0.0
    return _STILL_S + turns_s + given.arrival_timeout_ms / 1000


def _work(
    ready: Assembled, stop: Stop, once: bool, outage: RetryBackoff, metrics: ExecutorMetrics
) -> None:
    executor = ready.executor
    metrics.follow(lambda: executor.in_flight, ready.pause_file.exists, ready.journal.size_bytes)
    try:
        executor.recover()
        while not stop.is_set():
            done = executor.step()
            outage.succeeded()
            metrics.stepped()
            if done == 0 and once:
                return
    except Stopped:
        return


def outcome_line(done: Done) -> Line:
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
