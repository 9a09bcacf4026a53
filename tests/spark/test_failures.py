"""What a failed query becomes for whoever started it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks.topics.retry_backoff import RetryBackoff
from strategies.errors import PublishRejected, PublishTimeout, SinkError, StateVersionError
from streaming.failures import (
    JobError,
    explain,
    is_outage,
    is_transient,
    retry_after_outages,
    retry_transient,
)

LOG = Path("/checkpoint/spark.log")
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


def failure(error: str) -> Exception:
    return RuntimeError(IN_A_WORKER.format(error=error))


def test_an_error_of_ours_in_a_worker_stays_what_it_was() -> None:
    explained = explain(
        failure("strategies.errors.StateVersionError: written in format 9: start anew"), LOG
    )
    assert isinstance(explained, StateVersionError)
    assert str(explained) == "written in format 9: start anew"
    assert isinstance(
        explain(failure("strategies.errors.SinkError: /t cannot be listed"), LOG), SinkError
    )


def test_any_other_error_is_one_sentence_with_the_next_step_and_no_stack_trace() -> None:
    explained = explain(failure("KeyError: 'broker'"), LOG)
    assert isinstance(explained, JobError)
    assert str(explained) == (
        "the streaming job failed: KeyError: 'broker'. Nothing is lost: start it again, it "
        "continues where it stopped. "
        "Spark's log: /checkpoint/spark.log"
    )


def test_a_full_disk_is_named_with_the_folders_of_the_job(tmp_path: Path) -> None:
    explained = explain(
        RuntimeError(
            "An error occurred while calling o1.x.\n: java.io.IOException: No space left on device"
        ),
        tmp_path / "spark.log",
    )
    assert isinstance(explained, JobError)
    assert f"{tmp_path} has " in str(explained)
    assert "(job.checkpoint, TMPDIR)" in str(explained)
    assert "free space there, or name a folder on another disk" in str(explained)


def test_a_machine_without_cpu_for_python_is_named_with_the_setting_to_raise() -> None:
    explained = str(
        explain(
            RuntimeError(
                "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat X"
            ),
            LOG,
        )
    )
    assert "too little CPU" in explained
    assert "raise job.start_attempts" in explained


def test_an_error_of_java_is_told_by_its_first_line() -> None:
    text = (
        "[CANNOT_LOAD_STATE_STORE] An error occurred during loading state. SQLSTATE: 58030\n\tat "
        "org.apache.spark.X.y(X.scala:1)"
    )
    assert str(explain(RuntimeError(text), LOG)).startswith(
        "the streaming job failed: [CANNOT_LOAD_STATE_STORE] An error occurred during loading "
        "state. SQLSTATE: 58030. Nothing is lost"
    )
    assert "no reason given" in str(explain(RuntimeError(""), LOG))


@pytest.mark.parametrize(
    ("spark_says", "error", "told"),
    [
        (
            "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost",
            SinkError,
            "raise its retention.ms",
        ),
        (
            "org.apache.kafka.common.errors.RecordTooLargeException: The message is 9 bytes",
            PublishRejected,
            "max.message.bytes",
        ),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x",
            SinkError,
            "rebalancer topics create",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata "
            "after 60000 ms.",
            SinkError,
            "topics create",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node "
            "assignment",
            PublishTimeout,
            "its brokers run",
        ),
        (
            "org.apache.kafka.common.errors.SaslAuthenticationException: no",
            SinkError,
            "kafka.password_file",
        ),
    ],
)
def test_what_kafka_refuses_is_told_with_the_next_step(
    spark_says: str, error: type[SinkError], told: str
) -> None:
    explained = explain(
        RuntimeError(f"[STREAM_FAILED] Query terminated: {spark_says}\n\tat org.apache.kafka.X"),
        LOG,
    )
    assert type(explained) is error
    assert told in str(explained)
    assert "\n" not in str(explained)


def test_kafka_that_does_not_answer_is_an_outage_and_no_reason_to_try_at_once() -> None:
    for words in (
        "org.apache.kafka.common.errors.TimeoutException: Call(describeTopics)",
        "Cannot fetch record for offset 7 in 30000 milliseconds",
    ):
        assert is_outage(RuntimeError(words))
        assert not is_transient(RuntimeError(words))
    assert not is_outage(failure("KeyError: 'broker'"))


def test_workers_that_did_not_answer_are_worth_another_try() -> None:
    assert is_transient(
        RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")
    )
    assert is_transient(RuntimeError("[CANNOT_OPEN_SOCKET] Can not open socket"))
    assert not is_transient(failure("KeyError: 'broker'"))


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


SLOW = "Python worker failed to connect back."
AWAY = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment"

GONE = (
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not "
    "host this topic-partition."
)


def test_a_start_that_fails_in_passing_is_tried_again() -> None:
    query = Query((0, SLOW), (0, SLOW), (5, None))
    told: list[str] = []
    assert retry_transient(query.run, lambda: query.published, 3, told.append) is None
    assert query.published == 5
    assert told == [
        "Spark's Python workers did not connect within its 10 seconds; the machine may be "
        "overloaded; "
        f"attempt {number} of 3 (job.start_attempts)"
        for number in (2, 3)
    ]


def test_it_gives_up_after_so_many_failures_in_a_row() -> None:
    query = Query(*[(0, SLOW)] * 5)
    told: list[str] = []
    assert str(retry_transient(query.run, lambda: query.published, 3, told.append)) == SLOW
    assert len(told) == 2, "the last failure is the error itself"
    assert query.runs_left == 2


def test_progress_in_between_makes_it_patient_again() -> None:
    query = Query((0, SLOW), (0, SLOW), (1, SLOW), (0, SLOW), (2, None))
    assert retry_transient(query.run, lambda: query.published, 3, lambda _: None) is None


def test_other_failures_end_it_at_once() -> None:
    query = Query((1, "KeyError"), (1, None))
    told: list[str] = []
    assert str(retry_transient(query.run, lambda: query.published, 3, told.append)) == "KeyError"
    assert told == []
    assert query.runs_left == 1


def test_a_query_goes_on_when_kafka_is_back() -> None:
    query = Query((2, AWAY), (0, AWAY), (1, None))
    told: list[str] = []
    asked: list[SinkError | None] = [PublishTimeout("no answer"), None, None]

    def reach() -> None:
        error = asked.pop(0)
        if error is not None:
            raise error

    assert (
        retry_after_outages(
            query.run,
            lambda: query.published,
            reach,
            RetryBackoff(60, lambda _: False, told.append),
        )
        is None
    )
    assert (query.published, asked) == (3, [])
    assert ["trying again" in sentence for sentence in told] == [True, False], (
        "its begin and its end"
    )


@pytest.mark.parametrize("said", [AWAY, GONE])
def test_a_query_whose_topic_is_gone_is_not_tried_again_and_the_topic_is_named(said: str) -> None:
    query = Query((0, said))
    told: list[str] = []

    def reach() -> None:
        raise SinkError("the topic does not exist")

    with pytest.raises(SinkError, match="the topic does not exist"):
        retry_after_outages(
            query.run,
            lambda: query.published,
            reach,
            RetryBackoff(60, lambda _: False, told.append),
        )
    assert len(told) == (said == AWAY), "nothing is said about servers that do answer"


def test_a_topic_that_a_broker_did_not_know_for_a_moment_is_no_reason_to_end() -> None:
    query = Query((0, GONE), (1, None))
    assert (
        retry_after_outages(
            query.run,
            lambda: query.published,
            lambda: None,
            RetryBackoff(60, lambda _: False, lambda _: None),
        )
        is None
    )
    assert query.runs_left == 0


def test_a_topic_that_was_made_anew_ends_it() -> None:
    said = f"Some data may have been lost\n{GONE}"
    query = Query((0, said), (1, None))
    error = retry_after_outages(
        query.run,
        lambda: query.published,
        lambda: None,
        RetryBackoff(60, lambda _: False, lambda _: None),
    )
    assert str(error) == said
