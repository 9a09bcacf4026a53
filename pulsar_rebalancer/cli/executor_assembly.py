"""Puts the executor together from the settings, and takes it apart again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pulsar_rebalancer.settings.load import Settings
from sinks.executor.applier import Applier, RetryPolicy
from sinks.executor.costs import CostMeter
from sinks.executor.executor import Executor, ExecutorTopics
from sinks.executor.guard import RateLimiter
from sinks.executor.journal import Journal
from sinks.executor.settings import (
    ExecutorConfig,
    admission_rules,
    check_approval,
    guard_rules,
    pause_file,
    state_folder,
)
from sinks.executor.tasks import Result
from sinks.processes import wall_clock_ms
from sinks.pulsar_api.access import KnownBrokers
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LeaderPoll, check_cluster_name
from sinks.pulsar_api.freezes import FreezeWatch, probing
from sinks.topics.access import Consumer, Publisher, open_consumer, open_publisher
from sinks.topics.addresses import TopicUri
from sinks.wire.signing import approvals_key, signing_key

#: Deadline of short calls without a gate.
_QUICK_MS = 5_000
#: Records that a broker sends ahead.
_AHEAD = 16


@dataclass(frozen=True, slots=True)
class Assembled:
    """An executor that is ready to work, its journal and its pause file, the brokers it has found,
    and what asks for their leader.
    """

    executor: Executor
    journal: Journal
    pause_file: Path
    brokers: tuple[str, ...]
    leader: LeaderPoll
    signed: bool
    approval_required: bool


@contextmanager
def assembled(
    settings: Settings,
    apply: bool,
    wait: Callable[[float], bool],
    on_result: Callable[[Result], None],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Assembled]:
    """Opens everything, asks the cluster who is there, and closes everything again. Raises
    SettingsError, AdminError, SinkError.

    `wait` sleeps; True from it means that the program is to end. `say` hears warnings.
    """
    given, pulsar = settings.executor, settings.connections.pulsar
    key = signing_key(settings.connections.signing)
    approvals = approvals_key(settings.connections.signing)
    check_approval(given, approvals)
    config = ExecutorConfig(
        pulsar.cluster,
        admission_rules(given),
        apply,
        key,
        pause_file(given),
        given.max_concurrent,
        settings.connections.wire,
        approvals,
        given.approval == "required",
        guard_rules(given),
        None if settings.release_is_open else settings.engine.pulsar_version,
    )
    with ExitStack() as stack:
        known = KnownBrokers(pulsar, say)
        admin = PulsarAdmin(pulsar, wait, known=known)
        stack.callback(admin.close)
        check_cluster_name(pulsar, pulsar.admin_urls, admin.configuration())
        brokers = admin.brokers()
        journal = Journal(state_folder(given))
        stack.callback(journal.close)
        topics = _topics(settings, stack, with_approvals=approvals is not None)
        retry = RetryPolicy(given.arrival_timeout_ms, pulsar.attempts, pulsar.backoff_ms)
        looking = PulsarAdmin(probing(pulsar), wait)
        stack.callback(looking.close)
        watch = FreezeWatch(looking)
        quick = PulsarAdmin(
            probing(pulsar, given.gate_ms or _QUICK_MS),
            wait,
            deadline_name="executor.gate_ms",
            known=known,
        )
        stack.callback(quick.close)
        executor = Executor(
            config,
            topics,
            journal=journal,
            admin=admin,
            applier=Applier(admin, retry, wait, claiming=quick),
            limiter=RateLimiter(given.max_per_minute, wait),
            frozen=lambda live: str(watch.stuck(live) or ""),
            quick=quick,
            meter=CostMeter(quick, given.measure_ms, wait),
            on_result=on_result,
        )
        yield Assembled(
            executor,
            journal,
            pause_file(given),
            brokers,
            LeaderPoll(quick, wall_clock_ms),
            key is not None,
            config.approval_required,
        )


def _topics(settings: Settings, stack: ExitStack, *, with_approvals: bool) -> ExecutorTopics:
    connections = settings.connections
    uris = connections.topics
    folder = state_folder(settings.executor)
    # Executors of several clusters may share a topic: each has to see all of it.
    group = f"rebalancer-executor-{connections.pulsar.cluster}"

    def consumer(topic: TopicUri) -> Consumer:
        # An executor does a few commands at a time; each record may be as large as a broker allows.
        opened = open_consumer(
            topic, group, folder, connections.wire, connections.access, ahead=_AHEAD
        )
        stack.callback(opened.close)
        return opened

    def publisher(topic: TopicUri) -> Publisher:
        opened = open_publisher(topic, connections.access)
        stack.callback(opened.close)
        return opened

    return ExecutorTopics(
        consumer(uris.commands),
        consumer(uris.rounds),
        publisher(uris.outcomes),
        publisher(uris.telemetry),
        publisher(uris.rejected),
        consumer(uris.approvals) if with_approvals else None,
    )
