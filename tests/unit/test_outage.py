"""An outage is endured with longer and longer pauses, until patience ends; a thread beside the work
asks whether servers answer.
"""

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from sinks.metrics.http_server_and_probes import Liveness
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.kafka.settings import KafkaSettings, kafka_access
from sinks.topics.server_outages import RetryBackoff, watched
from sinks.topics.topic_settings import Connections, TopicAccess, file_topic, file_topic_uri
from strategies.errors import PublishTimeout, SinkError
from streaming.job import _run_with_restarts
from streaming.settings import JobSettings
from tests.topic_uris import topic_of, topics_of
from tools.waiting import eventually

AWAY = PublishTimeout("kafka://h:1/t: no answer")


class Day:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now, self.pauses, self.said = 0.0, list[float](), list[str]()

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.pauses.append(seconds)
        return False

    def told(self) -> list[str]:
        """Which of the two sentences, in their order."""
        ends = [one.removeprefix("the servers of the topics ") for one in self.said]
        return ["away" if "trying again" in end else end for end in ends]

    def outage(self, patience_s: float) -> RetryBackoff:
        return RetryBackoff(patience_s, self.wait, self.said.append, lambda: self.now)


def test_pauses_grow_to_half_a_minute_and_end_with_the_patience() -> None:
    day = Day()
    outage = day.outage(100)
    for _ in range(8):
        outage.wait_or_raise(AWAY)
    with pytest.raises(PublishTimeout, match="no answer"):
        outage.wait_or_raise(AWAY)
    assert day.pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert day.said == ["kafka://h:1/t: no answer; trying again for up to 100 s"]


def test_what_waiting_cannot_mend_is_raised_at_once() -> None:
    day = Day()
    with pytest.raises(SinkError, match="the topic does not exist"):
        day.outage(5).wait_or_raise(SinkError("the topic does not exist"))
    with pytest.raises(PublishTimeout):
        day.outage(0).wait_or_raise(AWAY)
    assert (day.pauses, day.said) == ([], [])


#: What happens to somebody who works and somebody who asks, each word once; numbers are seconds
#: that pass. And what is said.
STORIES: Mapping[str, tuple[str, Sequence[str]]] = {
    "what works again begins a new outage": (
        "failed failed works failed failed works failed failed works",
        ["away", "answer again after 3 s"] * 3,
    ),
    "who only asks says it while the client still waits": (
        "answers silent 40 silent answers works",
        ["away", "answer again after 40 s"],
    ),
    "a failure left from before the servers came back is no new outage": (
        "silent failed answers failed works",
        ["away", "answer again after 1 s"],
    ),
    "one failure is not said while the servers answer who asks": ("answers failed", []),
    "what fails again and again is said although the servers answer who asks": (
        "answers failed failed answers works",
        ["away", "answer again after 2 s"],
    ),
    # On Pulsar, reading from a broker that answers nothing succeeds, with no records.
    "work that succeeds ends no outage that who asks still sees": (
        "silent works 10 silent works 10 silent works 10 silent answers works",
        ["away", "answer again after 30 s"],
    ),
}


@pytest.mark.parametrize(("story", "said"), STORIES.values(), ids=STORIES)
def test_begin_and_end_of_an_outage_are_said(story: str, said: Sequence[str]) -> None:
    day = Day()
    outage = day.outage(100)
    happens: Mapping[str, Callable[[], None]] = {
        "failed": lambda: outage.wait_or_raise(AWAY),
        "works": outage.succeeded,
        "silent": lambda: outage.probed(AWAY),
        "answers": lambda: outage.probed(None),
    }
    for word in story.split():
        if word.isdigit():
            day.wait(int(word))
        else:
            happens[word]()
    assert day.told() == said


class Guarded(RetryBackoff):
    """Complains about a flag that is set without the lock."""

    def __setattr__(self, name: str, value: object) -> None:
        assert "_lock" not in vars(self) or self._lock.locked(), name
        super().__setattr__(name, value)


def test_two_threads_set_its_flags_under_its_lock_and_say_begin_and_end_in_turn() -> None:
    said: list[str] = []
    outage = Guarded(1e9, lambda _: False, said.append)

    def asks() -> None:
        for number in range(2_000):
            outage.probed(AWAY if number % 3 else None)

    def works() -> None:
        for number in range(2_000):
            if number % 3:
                outage.wait_or_raise(AWAY)
            else:
                outage.succeeded()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(asks), pool.submit(works)]:
            done.result()
    begins = ["trying again" in sentence for sentence in said]
    assert begins[:1] == [True]
    assert all(one != other for one, other in pairwise(begins))


class NeverStopped(threading.Event):
    """A stop for which a day is waited in no time. `now`: seconds."""

    now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0
        return False


def test_a_job_that_waits_for_its_topics_works(tmp_path: Path) -> None:
    names = ("telemetry", "commands", "rounds", "rejected")
    topics = topics_of(**{name: file_topic_uri(tmp_path / name) for name in names})
    stop = NeverStopped()
    liveness = Liveness(300, "a micro-batch", clock=lambda: stop.now)
    unhealthy: list[str] = []

    def query() -> PySparkException | None:
        unhealthy.append(liveness.not_healthy())
        if len(unhealthy) < 30:
            return PySparkException("org.apache.kafka.common.errors.TimeoutException")
        return None

    job = JobSettings(connections=Connections(topics=topics))
    kafka, turned = kafka_access(job.connections.kafka), liveness.turned
    ended = _run_with_restarts(
        job, query, lambda: 0, stop, lambda _: None, kafka=kafka, on_poll=turned
    )
    assert (ended, set(unhealthy)) == (None, {""})
    assert stop.now > 600


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ("kafka://{}/t", "no answer; check that the broker runs"),
        ("pulsar://{}/t/ns/t", "timeout; check that the brokers run"),
        # Of several servers one does not run, which does not hide the silence of the other.
        ("pulsar://127.0.0.1:1,{}/t/ns/t", "timeout; check that the brokers run"),
    ],
)
def test_a_server_that_accepts_connections_and_answers_nothing_is_away(
    shape: str, sentence: str
) -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = shape.format(f"127.0.0.1:{silent.getsockname()[1]}")
        access = TopicAccess(
            KafkaSettings(timeout_ms=200), PulsarSettings(deadline_ms=1_000, connect_timeout_ms=200)
        )
        with watched(
            [topic_of(uri)], access, RetryBackoff(60, lambda _: True, said.append), every_s=0.01
        ):
            eventually(lambda: bool(said), 180, "nothing is said about the outage")
    assert said[0].startswith(f"{uri}: {sentence}")
    assert said[0].endswith("; trying again for up to 60 s")


def test_folders_are_not_watched(tmp_path: Path) -> None:
    before = threading.active_count()
    with watched([file_topic(tmp_path)], TopicAccess(), RetryBackoff(60, lambda _: True, print)):
        assert threading.active_count() == before
