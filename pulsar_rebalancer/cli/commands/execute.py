"""`rebalancer execute`: applies commands to a Pulsar cluster, or shows what it would do."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.executor_assembly import Assembled, assembled
from pulsar_rebalancer.cli.own_shedder_warning import OwnShedder
from pulsar_rebalancer.cli.service_log import Line, Log, end, log_of, measured
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.executor.executor import Stopped
from sinks.executor.held_commands_and_approval_journal import Answered
from sinks.executor.settings import longest_step_s, state_folder
from sinks.executor.task_intake import Done, HeldBack, Result
from sinks.graceful_stop import Stop, stopping
from sinks.metrics.service_metrics import ExecutorMetrics, file_topics
from sinks.printable import put
from sinks.topics.server_outages import RetryBackoff, watched
from sinks.topics.topic_settings import TopicUri
from sinks.wire.record_encoding import encode_outcome
from strategies.errors import SinkError
from strategies.executor.objections_to_approvals import ApprovalOutcome

_WIDEST_STATUS = len("already-done")


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
    log = log_of(settings)
    with stopping() as stop, log.errors(debug=options.debug(ctx)), ExitStack() as stack:
        topics = dict(
            file_topics(settings.connections.topics, dict(settings.connections.topics.named()))
        )
        cluster = settings.connections.pulsar.cluster
        metrics = stack.enter_context(
            measured(
                settings,
                log,
                stop,
                lambda registry, liveness: ExecutorMetrics(registry, cluster, liveness),
                still_s=longest_step_s(settings.executor),
                ready_after="a step",
                folders={"executor.state": state_folder(settings.executor), **topics},
            )
        )
        reports = _Reports(log, metrics, as_json)
        held = _execute(settings, stop, reports, stack, apply=apply, once=once)
    waiting = f"; {held} commands wait for approval" if held else ""
    what = f" after {summary(reports.counts)}{waiting}"
    end(log, stop.by or "all done", what, outcomes=dict(reports.counts), held=held)


def _execute(
    settings: Settings,
    stop: Stop,
    reports: "_Reports",
    stack: ExitStack,
    *,
    apply: bool,
    once: bool,
) -> int:
    """Works until it is done or stopped; the number of commands that wait for approval."""
    log, metrics, connections = reports.log, reports.metrics, settings.connections
    wait = metrics.liveness.turning(stop.wait)
    outage = RetryBackoff(connections.kafka.outage_ms / 1000, wait, log.write)
    begun = False
    while not stop.is_set():
        try:
            with assembled(settings, apply, stop.wait, reports.add, log.warn) as ready:
                if not begun:
                    text = _what_it_does(settings, ready, apply)
                    log.write(Line(text, "starting", fields={"apply": apply}))
                    stack.enter_context(watched(used_topics(settings), connections.access, outage))
                begun = True
                _work(ready, stop, once, outage, reports, news=_shedder_news(ready, apply))
                return ready.executor.held
        except SinkError as error:
            if not begun:
                raise
            # Unfinished commands are read again from the topics and the journal, as after a
            # restart.
            outage.wait_or_raise(error)
    return 0


@dataclass(frozen=True)
class _Reports:
    """Prints and counts what the executor publishes."""

    log: Log
    metrics: ExecutorMetrics
    as_json: bool
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.metrics.add(result)
        match result:
            case Done(_, outcome):
                self.counts[outcome.status] += 1
                self._show(outcome_line(result), encode_outcome(outcome))
            case Answered(_, answer, encoded):
                self._show(answer_line(answer), encoded)
            case HeldBack() if not self.as_json:
                self.log.show(held_line(result))

    def _show(self, line: Line, record: bytes) -> None:
        if self.as_json:
            put(record.decode(), sys.stdout)
        else:
            self.log.show(line)


def _what_it_does(settings: Settings, ready: Assembled, apply: bool) -> str:
    cluster, signing = settings.connections.pulsar.cluster, settings.connections.signing
    mode = "applying" if apply else "dry run, nothing is changed (add --apply): reading"
    keyed = "signed commands only" if signing.key_file else "signatures are not checked"
    waits = ", each plan waits for approval" if settings.executor.approval == "required" else ""
    return f"{mode} commands for {cluster}, {len(ready.brokers)} brokers, {keyed}{waits}"


def used_topics(settings: Settings) -> list[TopicUri]:
    """The topics that the executor reads or writes; approvals only with their key."""
    connections = settings.connections
    return [
        topic
        for name, topic in connections.topics.named()
        if name != "approvals" or connections.signing.approvals_key_file
    ]


def _shedder_news(ready: Assembled, apply: bool) -> Callable[[], Iterable[Line]]:
    """Says that Pulsar's own shedder is on, whenever that is due. In a dry run nothing of ours
    moves bundles.
    """
    if not apply:
        return tuple
    return OwnShedder(ready.leader.run, "it and this executor move the same bundles").news


def _work(
    ready: Assembled,
    stop: Stop,
    once: bool,
    outage: RetryBackoff,
    reports: _Reports,
    *,
    news: Callable[[], Iterable[Line]],
) -> None:
    executor, metrics, log = ready.executor, reports.metrics, reports.log
    metrics.follow(
        lambda: len(executor.applying),
        lambda: executor.is_paused,
        ready.journal.size_bytes,
        lambda: executor.held,
        is_gate_closed=lambda: bool(executor.guard.gate.closed_by),
        breaker=lambda: executor.guard.breaker.state().code,
    )
    try:
        for line in news():
            log.write(line)
        executor.recover()
        while not stop.is_set():
            for line in news():
                log.write(line)
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
    return Line(
        text,
        "outcome",
        fields={
            "command": command.id,
            "action": command.action,
            "bundle": command.bundle,
            "from": command.source,
            "to": command.destination,
            "status": outcome.status,
            "reason": outcome.reason,
            "took_ms": outcome.took_ms,
        },
    )


def held_line(one: HeldBack) -> Line:
    """`waiting       transfer t/ns/0x…: a:1 → b:1 [round 17 of epoch 3 waits for approval]`"""
    command = one.task.command
    to = "" if command.destination is None else f" → {command.destination}"
    why = f"round {command.round} of epoch {command.epoch} waits for approval"
    return Line(
        f"{'waiting':<{_WIDEST_STATUS}}  {command.action} {command.bundle}: "
        f"{command.source}{to} [{why}]",
        "held",
        fields={"command": command.id, "epoch": command.epoch, "round": command.round},
    )


def answer_line(outcome: ApprovalOutcome) -> Line:
    """`accepted      approve plan 3.17-0f3a… by anna`, with the reason if it was not accepted."""
    what = "the executor" if outcome.plan is None else f"plan {outcome.plan}"
    why = f" [{outcome.reason}]" if outcome.reason else ""
    return Line(
        f"{outcome.status:<{_WIDEST_STATUS}}  {outcome.action} {what} by {outcome.by}{why}",
        "approval",
        fields={
            "approval": outcome.approval_id,
            "action": outcome.action,
            "plan": outcome.plan,
            "by": outcome.by,
            "status": outcome.status,
            "reason": outcome.reason,
        },
    )


def summary(counts: Counter[str]) -> str:
    """`3 applied, 1 refused`"""
    return (
        ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
        or "no commands"
    )
