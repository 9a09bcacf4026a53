"""What a failed query becomes for whoever started it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sinks.topics.server_outages import RetryBackoff
from strategies.errors import PublishRejected, PublishTimeout, SinkError, StateVersionError
from streaming.failures import JobError, explain
from streaming.retries import is_outage, is_transient, retry_after_outages, retry_transient

LOG = Path("/checkpoint/spark.log")
KAFKA = "org.apache.kafka.common.errors."
SLOW = "Python worker failed to connect back."
AWAY = f"{KAFKA}TimeoutException: Timed out waiting for a node assignment"
GONE = f"{KAFKA}UnknownTopicOrPartitionException: This server does not host this topic-partition."
FAILED = "the streaming job failed"
IN_A_WORKER = """[STREAM_FAILED] Query [id = d12f, runId = e38e] terminated with exception: \
An exception was raised by the Python Proxy:
Traceback (most recent call last):
  File "/x/pyspark/errors/exceptions/captured.py", line 257, in deco
    raise converted from None
  File "/x/streaming/processor.py", line 9, in handleInputRows
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/streaming/processor.py", line 9, in handleInputRows
{error}
 SQLSTATE: 39000 SQLSTATE: XXKST
"""


def in_a_worker(error: str) -> str:
    return IN_A_WORKER.format(error=error)


@pytest.mark.parametrize(
    ("said", "error", "told"),
    [
        (
            in_a_worker("strategies.errors.StateVersionError: in format 9: begin anew"),
            StateVersionError,
            "in format 9: begin anew",
        ),
        (in_a_worker("strategies.errors.SinkError: /t is no folder"), SinkError, "/t is no folder"),
        (
            in_a_worker("KeyError: 'broker'"),
            JobError,
            f"{FAILED}: KeyError: 'broker'. Nothing is lost: start it again, it continues where it "
            "stopped. Spark's log: /checkpoint/spark.log",
        ),
        (
            "[CANNOT_LOAD_STATE_STORE] An error. SQLSTATE: 58030\n\tat org.apache.X.y(X.scala:1)",
            JobError,
            f"{FAILED}: [CANNOT_LOAD_STATE_STORE] An error. SQLSTATE: 58030. Nothing is lost",
        ),
        ("", JobError, f"{FAILED}: no reason given"),
        (f"org.apache.spark.SparkException: {SLOW}\n\tat X", JobError, "Spark's Python workers"),
        (
            "An error occurred while calling o1.x.\n: java.io.IOException: No space left on device",
            JobError,
            "the disk is full (java.io.IOException: No space left on device); ",
        ),
        (
            "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost",
            SinkError,
            "records of the telemetry topic were deleted",
        ),
        (f"{KAFKA}RecordTooLargeException: The message is 9 bytes", PublishRejected, "a record is"),
        (f"{KAFKA}UnknownTopicOrPartitionException: x", SinkError, "a topic does not exist"),
        (f"{KAFKA}X: Topic t not present in metadata", SinkError, "a topic does not exist"),
        (AWAY, PublishTimeout, "Kafka does not answer"),
        (f"{KAFKA}SaslAuthenticationException: no", SinkError, "authentication failed"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker",
            JobError,
            "the workers run another minor version of Python",
        ),
        ('Cannot run program "python3.11"', JobError, "a worker does not have this Python"),
    ],
)
def test_a_failed_query_is_one_error_with_the_next_step_and_no_stack_trace(
    said: str, error: type[Exception], told: str
) -> None:
    explained = explain(RuntimeError(said), LOG)
    assert type(explained) is error
    assert str(explained).startswith(told)
    assert "\n" not in str(explained)


@pytest.mark.parametrize(
    ("said", "outage", "transient"),
    [
        (f"{KAFKA}TimeoutException: Call(describeTopics)", True, False),
        ("Cannot fetch record for offset 7 in 30000 milliseconds", True, False),
        (f"org.apache.spark.SparkException: {SLOW}", False, True),
        ("[CANNOT_OPEN_SOCKET] Can not open socket", False, True),
        (in_a_worker("KeyError: 'broker'"), False, False),
    ],
)
def test_an_outage_is_waited_for_and_workers_without_answer_are_tried_at_once(
    said: str, outage: bool, transient: bool
) -> None:
    error = RuntimeError(said)
    assert (is_outage(error), is_transient(error)) == (outage, transient)


class Query:
    """A query that ends as told, one end per attempt: how many micro-batches it publishes, and why
    it fails (None: it does not).
    """

    def __init__(self, *ends: tuple[int, str | None]) -> None:
        self._ends = list(ends)
        self.published = 0

    def run(self) -> Exception | None:
        batches, error = self._ends.pop(0)
        self.published += batches
        return None if error is None else RuntimeError(error)

    @property
    def runs_left(self) -> int:
        return len(self._ends)


class Machine:
    """Its clock moves while a query is tried, and while the job waits."""

    def __init__(self, attempt_s: float = 10.0) -> None:
        self.now, self._attempt_s = 0.0, attempt_s
        self.pauses: list[float] = []
        self.said: list[str] = []

    def run(self, query: Query, limit_s: float = 600.0, attempts: int = 3) -> Exception | None:
        def attempt() -> Exception | None:
            self.now += self._attempt_s
            return query.run()

        return retry_transient(
            attempt,
            lambda: query.published,
            self.said.append,
            limit_s=limit_s,
            attempts=attempts,
            wait=self._wait,
            clock=lambda: self.now,
            load=lambda: "load 31 on 2 cores",
        )

    def _wait(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_each_attempt_is_said_with_the_reason_of_the_one_before() -> None:
    query, machine = Query((0, SLOW), (0, SLOW), (5, None)), Machine(attempt_s=14.2)
    assert machine.run(query) is None
    assert query.published == 5
    first, *others = machine.said
    assert first == "attempt 1"
    assert others == [
        f"attempt {number} failed after 14 s: Spark's Python workers did not connect within its 10 "
        f"seconds (load 31 on 2 cores); attempt {number + 1} in {number} s, for up to 600 s in all "
        "(job.start_timeout_ms)"
        for number in (1, 2)
    ]


def test_a_busy_machine_has_as_many_attempts_as_fit_into_the_time() -> None:
    """9 of 20 attempts failed at a load of 30, 3 of 3 on a worse day: numbers say little."""
    query, machine = Query(*[(0, SLOW)] * 15, (1, None)), Machine()
    assert machine.run(query) is None
    assert query.published == 1
    assert machine.pauses == [1, 2, 4, 8, 16, *[30.0] * 10]


def test_it_gives_up_when_the_time_is_over_and_the_last_failure_is_the_error() -> None:
    query, machine = Query(*[(0, SLOW)] * 50), Machine()
    assert str(machine.run(query, limit_s=60)) == SLOW
    assert (machine.now, len(machine.said)) == (91, 6)


def test_slow_attempts_are_made_even_after_the_time() -> None:
    query, machine = Query((0, SLOW), (0, SLOW), (0, SLOW), (1, None)), Machine(attempt_s=400)
    assert str(machine.run(query, limit_s=300)) == SLOW
    assert query.runs_left == 1


def test_progress_in_between_makes_it_patient_again() -> None:
    query, machine = Query(*[(1, SLOW)] * 9, (2, None)), Machine(attempt_s=3_600)
    assert machine.run(query) is None
    assert query.published == 11
    assert machine.pauses == [1.0] * 9


def test_other_failures_end_it_at_once() -> None:
    query, machine = Query((1, "KeyError"), (1, None)), Machine()
    assert str(machine.run(query)) == "KeyError"
    assert machine.said == ["attempt 1"]
    assert query.runs_left == 1


def retried(
    query: Query, reach: Callable[[], None] = lambda: None
) -> tuple[Exception | None, list[str]]:
    """The error that ended the query, and what was said."""
    said: list[str] = []
    outage = RetryBackoff(60, lambda _: False, said.append)
    return retry_after_outages(query.run, lambda: query.published, reach, outage), said


def test_a_query_goes_on_when_kafka_is_back() -> None:
    query = Query((2, AWAY), (0, AWAY), (1, None))
    asked: list[SinkError | None] = [PublishTimeout("no answer"), None, None]

    def reach() -> None:
        error = asked.pop(0)
        if error is not None:
            raise error

    error, said = retried(query, reach)
    assert (error, query.published, asked) == (None, 3, [])
    assert ["trying again" in sentence for sentence in said] == [True, False], (
        "its begin and its end"
    )


@pytest.mark.parametrize("said", [AWAY, GONE])
def test_a_query_whose_topic_is_gone_is_not_tried_again_and_the_topic_is_named(said: str) -> None:
    def reach() -> None:
        raise SinkError("the topic does not exist")

    with pytest.raises(SinkError, match="the topic does not exist"):
        retried(Query((0, said)), reach)


def test_a_topic_that_a_broker_did_not_know_for_a_moment_is_no_reason_to_end() -> None:
    query = Query((0, GONE), (1, None))
    assert retried(query)[0] is None
    assert query.runs_left == 0


def test_a_topic_that_was_made_anew_ends_it() -> None:
    said = f"Some data may have been lost\n{GONE}"
    assert str(retried(Query((0, said), (1, None)))[0]) == said
