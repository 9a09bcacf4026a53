"""The streaming job: reads telemetry, publishes commands, rounds and rejected records, with one
Spark query.

A stop lets the running micro-batch finish and commit, and leaves the next one to the next start.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sinks.graceful_stop import Stop, stopping
from sinks.metrics.settings import METRICS_OFF, MetricsSettings
from sinks.topics.epochs import next_epoch
from sinks.topics.kafka.settings import KafkaAccess, kafka_access, start_complaints
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.server_outages import RetryBackoff, watched
from sinks.topics.topic_admin import missing_topics
from sinks.topics.topic_settings import Connections, Topics, TopicUri
from sinks.wire.raw_broker_reports import check_source
from sinks.wire.signing_keys import intents_key, signing_key
from strategies.errors import SettingsError, SinkError
from strategies.fold.engine import Engine, EngineSettings
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from streaming.checkpoint.guard import SPARK_LOG, checkpoint_folder, guarded
from streaming.checkpoint.remembered_and_changed_settings import guard_of, written_guard
from streaming.cluster.remote_workers import check_workers, is_local, stopped_by_java
from streaming.cluster.spark_submit_start import is_submitted
from streaming.failures import explain, java_end_error
from streaming.first_start import (
    end_warm_start,
    in_words,
    resolve_release,
    warming,
    with_partitions,
)
from streaming.job_files import keep_short, temporary_folder
from streaming.outputs.counts_of_micro_batch import Written
from streaming.outputs.output_topics import JOB_TOPICS, open_output, topic_complaints
from streaming.progress import BatchProgress, OnProgress, Progress, progress_file
from streaming.query import LONGEST_PAUSE_S, SHORTEST_PAUSE_S, Run, follow, start_query
from streaming.retries import retry_after_outages, retry_transient
from streaming.settings import JobSettings
from streaming.spark_session import (
    JAVA_ENDS_S,
    java_end,
    query_settings,
    start_session,
    stop_session,
)
from streaming.start_lines import StartLines, start_lines
from streaming.state.forget_clusters import ForgetPolicy

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobResult:
    """The end of a run."""

    #: `drained`, `stop` (the caller's event) or the name of a signal.
    stopped_by: str
    #: Numbers of published records.
    written: Written


def run_job(
    job: JobSettings,
    engine: EngineSettings,
    *,
    drain: bool = False,
    on_progress: OnProgress | None = None,
    stop: Stop | None = None,
    session: SparkSession | None = None,
    log: Callable[[str], None] = lambda _: None,
    metrics: MetricsSettings = METRICS_OFF,
    on_poll: Callable[[], None] = lambda: None,
    forget_policy: ForgetPolicy = ForgetPolicy(),
    in_release: Callable[[PulsarRelease], EngineSettings] | None = None,
) -> JobResult:
    """Runs the job until it is stopped, or, with `drain`, until all present records are processed.

    `on_progress`: called with every micro-batch, from another thread. `stop`: ends the run; so do
    SIGTERM and SIGINT in the main thread. `session`: a running Spark session to use instead of
    starting (and stopping) one. `log`: gets messages for people: the epoch, and why the job waits.
    `metrics`: if they are on, micro-batches have facts. `on_poll`: called at every turn of the main
    loop, and while topics are read before. `forget_policy`: with rows of clusters that vanish; for
    tests, which cannot wait for days. `in_release`: the engine's settings for the Pulsar release
    that checkpoint or telemetry name, with `pulsar.version = "auto"`.
    Raises SettingsError, StateVersionError, CheckpointInUse, SinkError, SparkStartError, JobError.
    """
    kafka = check_job(job, engine)
    _check_topics_exist(job.connections, kafka)
    folder = checkpoint_folder(job)
    written = written_guard(folder)
    stop = stop or Stop()
    if in_release is not None:
        ended = None if drain else _polling(stop, on_poll)
        release = resolve_release(job, written, log, ended=ended)
        if release is None:
            return JobResult(stop.by or "stop", Written())
        engine = in_release(release)
        Engine(engine)
    job = with_partitions(job, written, log)
    with ExitStack() as stack:
        # Rounds announce an epoch before its commands; commands count too, in case rounds were
        # deleted earlier.
        places = (job.connections.topics.rounds, job.connections.topics.commands)
        epoch = partial(next_epoch, places, job.connections.access, on_poll)
        warm = warming(job, engine, log, on_record=on_poll)
        held = stack.enter_context(guarded(folder, guard_of(job, engine), epoch, warming=warm))
        engine = replace(engine, round=replace(engine.round, epoch=held.epoch))
        run = Run(job, engine, kafka, folder, held.guard, drain, metrics, forget_policy)
        for line in held.lines():
            log(line)
        lines = stack.enter_context(start_lines(folder, log))
        report = _reports(job, on_progress)
        lines.say("Spark starts")
        spark = stack.enter_context(
            _running(run, held.lock, log) if session is None else _shared_session(session, job)
        )
        if is_submitted():
            stack.enter_context(stopped_by_java(stop))
        stack.enter_context(stopping(stop))
        progress = Progress(report, on_poll, _until(run, log), lines.works)
        return _run(spark, run, progress, stop, lines)


def _polling(stop: threading.Event, on_poll: Callable[[], None]) -> Callable[[float], bool]:
    """Returns a function that calls `on_poll`, waits for a number of seconds, and returns True if
    the job ends.
    """

    def wait(seconds: float) -> bool:
        on_poll()
        return stop.wait(seconds)

    return wait


def check_job(job: JobSettings, engine: EngineSettings) -> KafkaAccess:
    """Checks the settings without starting anything. Returns the access to Kafka, with the secrets
    that it has read. Raises SettingsError with all complaints.
    """
    Engine(engine)
    used = job.connections
    complaints = topic_complaints(used.topics)

    def read(reader: Callable[[], T]) -> T | None:
        try:
            return reader()
        except SettingsError as error:
            complaints.extend(error.complaints)
            return None

    read(lambda: signing_key(used.signing))
    read(lambda: intents_key(used.signing))
    kafka = read(lambda: kafka_access(used.kafka))
    read(lambda: check_source(str(used.topics.telemetry), used.source))
    complaints += start_complaints("pulsar.start", used.pulsar.start)
    if complaints or kafka is None:
        raise SettingsError(complaints)
    return kafka


def _check_topics_exist(used: Connections, kafka: KafkaAccess) -> None:
    """Checks the topics before anything starts: an error takes seconds here, and minutes as a stack
    trace of Spark.
    """
    topics = _job_topics(used.topics)
    missing = missing_topics([topic for topic in topics if topic.scheme == "kafka"], kafka)
    for topic in topics:
        if topic.scheme == "pulsar":
            with closing(PulsarLink(topic, used.pulsar)) as link:
                link.partitions()
    if missing:
        raise SinkError(
            f"{', '.join(map(str, missing))}: the topic does not exist; create it with: "
            "rebalancer topics create"
        )


def _job_topics(topics: Topics) -> list[TopicUri]:
    return [getattr(topics, name) for name in JOB_TOPICS]


def _run(
    spark: SparkSession, run: Run, progress: Progress, stop: Stop, lines: StartLines
) -> JobResult:
    output = open_output(
        run.job, run.kafka, stop, lambda error: explain(error, run.folder / SPARK_LOG)
    )
    if not is_local(run.job.master):
        check_workers(spark, run.job, run.folder, stop)

    def once() -> PySparkException | None:
        progress.on_poll()
        if stop.is_set():
            return None
        longest_s = SHORTEST_PAUSE_S if run.drain else LONGEST_PAUSE_S
        return follow(start_query(spark, run, output), output, progress, stop, longest_s)

    try:
        error = _run_with_restarts(
            run.job,
            once,
            lambda: progress.batches,
            stop,
            lines.log,
            kafka=run.kafka,
            say=lines.say,
            on_poll=progress.on_poll,
        )
        if error is not None and not stop.is_set():
            raise output.explained(error) or explain(error, run.folder / SPARK_LOG) from error
    finally:
        output.close()
    return JobResult(stop.by or ("stop" if stop.is_set() else "drained"), progress.total)


def _run_with_restarts(
    job: JobSettings,
    once: Callable[[], PySparkException | None],
    committed: Callable[[], int],
    stop: threading.Event,
    log: Callable[[str], None],
    *,
    kafka: KafkaAccess,
    say: Callable[[str], None] = lambda _: None,
    on_poll: Callable[[], None] = lambda: None,
) -> PySparkException | None:
    """Runs the query with all restarts. `committed`: number of micro-batches; `say`: gets a line
    per attempt; `on_poll`: called before each pause, for a job that waits for its topics works.
    Returns the error that ended it, or None.
    """

    def check_topics() -> None:
        if not stop.is_set():
            _check_topics_exist(job.connections, kafka)

    wait = _polling(stop, on_poll)
    outage = RetryBackoff(job.connections.kafka.outage_ms / 1000, wait, log)
    with watched(_job_topics(job.connections.topics), job.connections.access, outage):
        return retry_after_outages(
            lambda: retry_transient(
                once,
                committed,
                say,
                limit_s=job.start_timeout_ms / 1000,
                attempts=job.start_attempts,
                wait=wait,
            ),
            committed,
            check_topics,
            outage,
        )


def _until(run: Run, log: Callable[[str], None]) -> Callable[[str | None], bool] | None:
    """Returns a function that ends the warm start with the micro-batch that passes its end, and
    returns True then; None without a warm start.
    """
    warm = run.warm
    if warm is None:
        return None
    log(
        f"warm start: nothing is published of telemetry from {in_words(warm.since_ms)} to the end "
        "that the topic had when the checkpoint began"
    )

    def ended(end: str | None) -> bool:
        if not warm.passed(end):
            return False
        end_warm_start(run.folder, run.guard)
        log("warm start: done; from here on, rounds and commands are published")
        return True

    return ended


def _reports(job: JobSettings, on_progress: OnProgress | None) -> OnProgress:
    """Returns a function that passes the progress of micro-batches to the caller and the file."""
    targets = [on_progress] if on_progress is not None else []
    if job.progress_file:
        targets.append(progress_file(Path(job.progress_file), job.log_bytes))

    def report(progress: BatchProgress) -> None:
        for target in targets:
            target(progress)

    return report


@contextmanager
def _running(run: Run, lock: int, log: Callable[[str], None]) -> Iterator[SparkSession]:
    # Java inherits the lock: the checkpoint is free only after the last process that could write to
    # it has ended.
    spark_log = run.folder / SPARK_LOG
    with temporary_folder() as temporary:
        session = start_session(
            run.job,
            spark_log,
            short=run.drain,
            keep_open=(lock, temporary.lock),
            temporary=temporary.folder,
            log=log,
        )
        try:
            with keep_short(spark_log, run.job.log_bytes):
                yield session
        except (SettingsError, SinkError):
            raise
        except Exception as error:  # the type of the error depends on when Java ended
            code = java_end(JAVA_ENDS_S)
            if code is None:
                raise
            raise java_end_error(code, spark_log) from error
        finally:
            stop_session(session)


@contextmanager
def _shared_session(session: SparkSession, job: JobSettings) -> Iterator[SparkSession]:
    ours = session.newSession()
    for key, value in query_settings(job).items():
        ours.conf.set(key, value)
    yield ours
