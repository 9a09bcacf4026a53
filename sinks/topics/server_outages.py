"""Outages of the topics' servers: probes notice them, work is repeated with exponential back-off,
and the log says when one begins and ends.

During an outage clients retry silently: Spark's Kafka source for minutes, kafka-python for
`kafka.timeout_ms`, Pulsar's client for `pulsar.deadline_ms` when it writes and without limit when
it reads. So a thread beside the work probes the servers every few seconds, with its own
connections.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from sinks.graceful_stop import repeated
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.kafka.settings import kafka_access
from sinks.topics.pulsar.partition import PulsarLink
from sinks.topics.topic_admin import missing_topics
from sinks.topics.topic_settings import TopicAccess, TopicUri
from strategies.errors import PublishTimeout, RebalancerError

if TYPE_CHECKING:
    import pulsar

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_DOUBLINGS = 5


@dataclass
class RetryBackoff:
    """The current outage, shared by two threads: one works, the other only probes the servers.

    `limit_s`: longest outage before the process gives up. `wait`: sleeps for a number of seconds;
    returns True if the process is to stop. `log`: gets one line when an outage begins and one when
    it ends, whichever thread notices first.

    An outage lasts while probes get no answer or work fails: one failure counts without probes, two
    in a row are needed while probes are answered, because the first may be a leftover of an earlier
    outage. Successful work does not end an outage that probes detect: on Pulsar, a read fails only
    when there is something to read.
    """

    limit_s: float
    wait: Callable[[float], bool]
    log: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    #: Time of the first failure since the last success.
    _failing_since: float | None = field(default=None, init=False)
    #: Failures since the last success, or since the servers answered again.
    _failures: int = field(default=0, init=False)
    #: Whether the servers answer probes; None before the first probe.
    _answering: bool | None = field(default=None, init=False)
    _logged_at: float | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def succeeded(self) -> None:
        """Records that work succeeded."""
        with self._lock:
            self._failing_since, self._failures = None, 0
            self._log_change()

    def wait_or_raise(self, error: RebalancerError) -> None:
        """Logs a failure of the work and sleeps. Raises the error if it is not retryable or the
        outage exceeds the limit.
        """
        now = self.clock()
        with self._lock:
            self._failing_since = now if self._failing_since is None else self._failing_since
            if not error.retryable or now - self._failing_since >= self.limit_s:
                raise error
            pause_s = min(_FIRST_PAUSE_S * 2 ** min(self._failures, _DOUBLINGS), _LONGEST_PAUSE_S)
            self._failures += 1
            self._log_change(error)
        self.wait(pause_s)

    def probed(self, error: RebalancerError | None) -> None:
        """Records the result of a probe: its error, or None."""
        with self._lock:
            if error is None and self._answering is False:
                self._failures = 0
            self._answering = error is None
            self._log_change(error)

    def _log_change(self, error: RebalancerError | None = None) -> None:
        away = self._answering is False or self._failures > (1 if self._answering else 0)
        if away and self._logged_at is None and error is not None:
            self._logged_at = self.clock()
            self.log(f"{str(error).rstrip('.')}; trying again for up to {self.limit_s:g} s")
        elif not away and self._logged_at is not None:
            self.log(
                "the servers of the topics answer again after "
                f"{self.clock() - self._logged_at:.0f} s"
            )
            self._logged_at = None


#: Number of probes over the same connections.
_QUESTIONS = 20


class PulsarProbe:
    """Keeps its connections between answered probes: a probe then costs one small request per
    partition.

    After an unanswered probe the next one uses a new connection and a new look-up: another broker
    may serve the topic by then, and the client keeps a connection to a hanging broker for up to a
    minute. The same happens every 20th probe: after a short loss of connection the client may
    answer from its cache, and partitions may have been added.
    """

    def __init__(self, topics: Collection[TopicUri], settings: PulsarSettings) -> None:
        """Connects on the first probe. `settings.deadline_ms`: timeout of each request."""
        self._topics, self._settings = topics, settings
        self._open = ExitStack()
        self._readers: list[tuple[PulsarLink, pulsar.Reader]] = []
        self._questions_left = 0

    def __call__(self) -> None:
        """Raises SinkError, PublishTimeout if no broker answers for one of the topics,
        SettingsError.
        """
        try:
            if self._questions_left == 0:
                self._connect()
            self._questions_left -= 1
            for link, reader in self._readers:
                with link.errors():
                    reader.has_message_available()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connections; the next probe opens new ones."""
        self._readers, self._questions_left = [], 0
        self._open.close()

    def _connect(self) -> None:
        self.close()
        for topic in self._topics:
            link = PulsarLink(topic, self._settings)
            # Without requests to the brokers, which may not answer.
            self._open.callback(link.client.shutdown)
            self._readers += [(link, reader) for reader in _readers(link)]
        self._questions_left = _QUESTIONS


def _readers(link: PulsarLink) -> "list[pulsar.Reader]":
    """A reader at the end of each partition; none if the token may not read."""
    try:
        return [link.at_end(partition) for partition in link.partitions()]
    except PublishTimeout:
        raise
    except RebalancerError:
        return []


#: Raises SinkError, PublishTimeout if servers do not answer.
_Probe = Callable[[], object]
#: Timeout of a probe, which is a small request.
_ANSWERS_MS = 5_000
#: Timeout for connecting to a Pulsar broker, short enough to try the next broker of the topic's
#: URI.
_CONNECTS_MS = 1_500


@contextmanager
def watched(
    topics: Collection[TopicUri],
    access: TopicAccess,
    outage: RetryBackoff,
    every_s: float = 3.0,
) -> Iterator[None]:
    """Probes the servers of these topics while the context lasts and reports to `outage`. Raises
    SettingsError.

    `every_s`: pause before each probe.
    """
    opened = ExitStack()
    probes = _probes(topics, access, opened)
    if not probes:
        yield
        return
    work = partial(_report, probes, outage)
    with repeated(work, every_s, "watch-topics", used=opened):
        yield


def _probes(topics: Collection[TopicUri], access: TopicAccess, opened: ExitStack) -> list[_Probe]:
    """One probe per kind of server; `opened` closes them."""
    on_kafka, on_pulsar = (
        [topic for topic in topics if topic.scheme == scheme] for scheme in ("kafka", "pulsar")
    )
    found: list[_Probe] = []
    if on_kafka:
        short = replace(access.kafka, timeout_ms=min(access.kafka.timeout_ms, _ANSWERS_MS))
        # Over a new connection each time.
        found.append(partial(missing_topics, on_kafka, kafka_access(short)))
    if on_pulsar:
        limits = {"deadline_ms": _ANSWERS_MS, "connect_timeout_ms": _CONNECTS_MS}
        shortened = {name: min(getattr(access.pulsar, name), most) for name, most in limits.items()}
        probe = PulsarProbe(on_pulsar, replace(access.pulsar, **shortened))
        opened.callback(probe.close)
        found.append(probe)
    return found


def _report(probes: Sequence[_Probe], outage: RetryBackoff, ended: threading.Event) -> None:
    error = next(filter(None, map(_answer, probes)), None)
    if not ended.is_set():
        outage.probed(error)


def _answer(ask: _Probe) -> RebalancerError | None:
    """The error of a probe without answer. A deleted topic or a refused login is no outage; it ends
    the work itself.
    """
    try:
        ask()
    except PublishTimeout as error:
        return error
    except RebalancerError:
        return None
    return None
