"""`rebalancer notify`: sends notices about lasting changes of the clusters to a webhook."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import exit_codes, options
from pulsar_rebalancer.cli.service_log import Line, Log, end, log_of, measured
from pulsar_rebalancer.decisions.log import Kind
from pulsar_rebalancer.decisions.notices.notice_loop_and_outbox import (
    NoticeSource,
    Notifier,
    Outbox,
)
from pulsar_rebalancer.decisions.notices.notice_rules import PLAN, SILENT_ROUNDS, NoticeRules
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import Stop, stopping, wall_clock_ms
from sinks.metrics.service_metrics import NotifierMetrics
from sinks.notices.delivery import Attempt, Delivery, Notice, NoticeCause
from sinks.notices.settings import notice_kinds, webhook
from sinks.topics.open_topics import open_consumer
from sinks.topics.server_outages import RetryBackoff, watched
from sinks.topics.topic_settings import TopicUri
from sinks.wire.signing_keys import signing_key
from strategies.errors import SinkError

_GROUP = "rebalancer-notify"
_POLL_S = 1.0
#: Longest time between two turns of a loop that works, beside one delivery.
_STILL_S = 300.0


def notify(
    ctx: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Process all present records, then stop.")
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", help="Send one test notice, then stop; read no topic.")
    ] = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Send notices to a webhook when the state of a cluster changes and stays so, when a cluster
    has no rounds, and when commands fail.

    Reads the rounds and outcomes topics, for plans also the commands topic. The first start only
    remembers older records. SIGTERM and Ctrl-C end the process; undelivered notices are sent after
    the next start. Exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    settings = options.settings(config, overrides)
    log = log_of(settings)
    with stopping() as stop, log.errors(debug=options.debug(ctx)):
        if test:
            _send_test(settings, stop, log)
            return
        _notify(settings, stop, log, once=once)
    end(log, stop.by or "all done")


def _notify(settings: Settings, stop: Stop, log: Log, *, once: bool) -> None:
    connections, topics = settings.connections, topics_of(settings)
    with ExitStack() as stack:
        still_s = _STILL_S + settings.notices.timeout_ms / 1000
        metrics = stack.enter_context(
            measured(settings, log, stop, NotifierMetrics, still_s=still_s, ready_after="a step")
        )
        outbox = stack.enter_context(closing(Outbox(Path(settings.notices.state))))
        wait = metrics.liveness.turning(stop.wait)
        outage = RetryBackoff(connections.kafka.outage_ms / 1000, wait, log.write)
        delivery = _delivery(settings, wait, log, metrics.attempted)
        log.write(_starting(settings))
        begun = False
        while not stop.is_set():
            try:
                with _opened(settings) as sources:
                    notifier = Notifier(
                        sources,
                        outbox,
                        delivery,
                        rules_of(settings),
                        clock_ms=wall_clock_ms,
                        on_skipped=lambda text: log.write(Line(text, "skipped", "warning")),
                    )
                    if not begun:
                        stack.enter_context(watched(topics.values(), connections.access, outage))
                    begun = True
                    _work(notifier, stop, outage, metrics, once=once)
                return
            except SinkError as error:
                if not begun:
                    raise
                outage.wait_or_raise(error)


def topics_of(settings: Settings) -> dict[Kind, TopicUri]:
    """By kind of record; commands only if notices are wanted about plans."""
    topics = settings.connections.topics
    followed: dict[Kind, TopicUri] = {
        "rounds": topics.rounds,
        "commands": topics.commands,
        "outcomes": topics.outcomes,
    }
    if PLAN not in notice_kinds(settings.notices):
        del followed["commands"]
    return followed


def _work(
    notifier: Notifier, stop: Stop, outage: RetryBackoff, metrics: NotifierMetrics, *, once: bool
) -> None:
    metrics.follow(lambda: notifier.waiting)
    while not stop.is_set():
        records = notifier.step(0 if once else _POLL_S)
        outage.succeeded()
        metrics.stepped()
        if once and not records:
            return


def rules_of(settings: Settings) -> NoticeRules:
    """The rules of these settings for notices."""
    given, rounds = settings.notices, settings.engine.round
    return NoticeRules(
        notice_kinds(given),
        given.settle_rounds,
        SILENT_ROUNDS * rounds.interval_ms + rounds.lateness_ms,
        link=given.link or None,
    )


def _delivery(
    settings: Settings,
    wait: Callable[[float], bool],
    log: Log,
    count: Callable[[Attempt], None] = lambda _: None,
) -> Delivery:
    def on_attempt(attempt: Attempt) -> None:
        count(attempt)
        log.write(attempt_line(attempt))

    return Delivery(webhook(settings.notices), settings.notices, wait, on_attempt)


def attempt_line(attempt: Attempt) -> Line:
    """`delivered cannot-help of prod: hooks.example answered 200`"""
    notice, reply = attempt.notice, attempt.reply
    about = " of ".join(filter(None, (notice.kind, notice.cluster)))
    fields = {
        "notice": notice.id,
        "kind": notice.kind,
        "about": notice.cluster,
        "code": reply.code,
        "attempt": attempt.number,
    }
    match attempt.fate:
        case "delivered":
            return Line(f"delivered {about}: {reply.text}", "delivered", fields=fields)
        case "given-up":
            text = (
                f"gave up {about} at attempt {attempt.number}: {reply.text}; check the webhook, "
                "then send a test with `rebalancer notify --test`"
            )
            return Line(text, "given-up", "error", fields)
        case _:
            text = f"{about} is not delivered: {reply.text}; again in {attempt.pause_s:.1f} s"
            return Line(text, "not-delivered", "warning", fields)


def _starting(settings: Settings) -> Line:
    hook = webhook(settings.notices)
    signed = "signed" if hook.keys else "not signed (set notices.key_file)"
    kinds = sorted(notice_kinds(settings.notices))
    return Line(
        f"sending {hook.form} notices to {hook.host}, {signed}, about {', '.join(kinds)}",
        "starting",
        fields={"host": hook.host, "kinds": kinds},
    )


def _send_test(settings: Settings, stop: Stop, log: Log) -> None:
    now_ms, given = wall_clock_ms(), settings.notices
    cause = NoticeCause("test", "this is a test of the webhook", "Nothing to do.")
    cluster = settings.connections.pulsar.cluster
    notice = Notice(
        "test",
        cluster,
        ": ".join(filter(None, (cluster, "test"))),
        now_ms,
        now_ms,
        cause,
        link=given.link or None,
    )
    if _delivery(settings, stop.wait, log).deliver(notice) != "delivered":
        raise typer.Exit(exit_codes.ERROR)


@contextmanager
def _opened(settings: Settings) -> Iterator[list[NoticeSource]]:
    given, folder = settings.connections, Path(settings.notices.state)
    key = signing_key(given.signing)
    keys = {"rounds": key, "commands": key}
    with ExitStack() as stack:
        sources = list[NoticeSource]()
        for kind, topic in topics_of(settings).items():
            consumer = open_consumer(topic, _GROUP, folder, given.wire, given.access)
            sources.append(
                NoticeSource(kind, stack.enter_context(closing(consumer)), keys.get(kind))
            )
        yield sources
