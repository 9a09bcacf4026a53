"""Puts the executor together from the settings, and takes it apart again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.executor.apply_or_recover import Applier, RetryPolicy
from sinks.executor.executor import Executor
from sinks.executor.journal import Journal
from sinks.executor.move_gate_and_holds import RateLimiter
from sinks.executor.pause_meter import CostMeter
from sinks.executor.settings import (
    ExecutorConfig,
    admission_rules,
    check_approval,
    guard_rules,
    pause_file,
    state_folder,
)
from sinks.executor.task_intake import ExecutorTopics, Result
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LeaderPoll, check_cluster_name
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers
from sinks.pulsar_api.frozen_brokers import FreezeWatch, probing
from sinks.topics.open_topics import Consumer, Publisher, open_consumer, open_publisher
from sinks.topics.topic_settings import TopicUri
from sinks.wire.signing_keys import approvals_key, signing_key

#: Deadline of short calls without a gate.
_QUICK_MS = 5_000


@dataclass(frozen=True, slots=True)
class Assembled:
    """An executor that is ready to work, its journal, the brokers it has found, and what asks for
    their leader.
    """

    executor: Executor
    journal: Journal
    brokers: tuple[str, ...]
    leader: LeaderPoll


@contextmanager
def assembled(
    settings: Settings,
    apply: bool,
    wait: Callable[[float], bool],
    on_result: Callable[[Result], None],
    say: Callable[[str], None],
) -> Iterator[Assembled]:
    """Opens everything, asks the cluster who is there, and closes everything again. Raises
    SettingsError, AdminError, SinkError.

    `wait` sleeps; True from it means that the program is to end. `say` hears warnings.
    """
    given, pulsar, config = settings.executor, settings.connections.pulsar, _config(settings, apply)
    with ExitStack() as stack:
        known = KnownBrokers(pulsar, say)
        admin = stack.enter_context(closing(PulsarAdmin(pulsar, wait, known=known)))
        check_cluster_name(pulsar, pulsar.admin_urls, admin.configuration())
        brokers = admin.brokers()
        journal = stack.enter_context(closing(Journal(state_folder(given))))
        topics = _topics(settings, stack, with_approvals=config.approvals_key is not None)
        retry = RetryPolicy(given.arrival_timeout_ms, pulsar.attempts, pulsar.backoff_ms)
        watch = FreezeWatch(stack.enter_context(closing(PulsarAdmin(probing(pulsar), wait))))
        quick = PulsarAdmin(
            probing(pulsar, given.gate_ms or _QUICK_MS),
            wait,
            deadline_name="executor.gate_ms",
            known=known,
        )
        stack.enter_context(closing(quick))
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
        yield Assembled(executor, journal, brokers, LeaderPoll(quick, wall_clock_ms))


def _config(settings: Settings, apply: bool) -> ExecutorConfig:
    """Raises SettingsError."""
    given, connections = settings.executor, settings.connections
    approvals = approvals_key(connections.signing)
    check_approval(given, approvals)
    return ExecutorConfig(
        connections.pulsar.cluster,
        admission_rules(given),
        apply,
        signing_key(connections.signing),
        pause_file(given),
        given.max_concurrent,
        connections.wire,
        approvals,
        given.approval == "required",
        guard_rules(given),
        None if settings.release_is_open else settings.engine.pulsar_version,
    )


def _topics(settings: Settings, stack: ExitStack, *, with_approvals: bool) -> ExecutorTopics:
    connections = settings.connections
    uris = connections.topics
    folder = state_folder(settings.executor)
    # Executors of several clusters may share a topic: each has to see all of it.
    group = f"rebalancer-executor-{connections.pulsar.cluster}"

    def consumer(topic: TopicUri) -> Consumer:
        # An executor does a few commands at a time; each record may be as large as a broker allows.
        return stack.enter_context(
            closing(
                open_consumer(topic, group, folder, connections.wire, connections.access, ahead=16)
            )
        )

    def publisher(topic: TopicUri) -> Publisher:
        return stack.enter_context(closing(open_publisher(topic, connections.access)))

    return ExecutorTopics(
        consumer(uris.commands),
        consumer(uris.rounds),
        publisher(uris.outcomes),
        publisher(uris.telemetry),
        publisher(uris.rejected),
        consumer(uris.approvals) if with_approvals else None,
    )
