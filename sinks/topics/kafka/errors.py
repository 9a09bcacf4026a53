"""Converts errors of the Kafka client to ours: what happened, and the next step. No other module
does this.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from sinks.topics.kafka.codecs import TOO_LARGE, UNREADABLE
from sinks.topics.topic_settings import TopicUri
from strategies.errors import PublishRejected, PublishTimeout, SinkError

NO_TOPIC = "the topic does not exist; create it with: rebalancer topics create"
_TOO_LARGE = "the record is larger than the topic allows; raise its max.message.bytes"
_LOGIN = (
    "authentication failed: check kafka.username, the content of kafka.password_file and "
    "kafka.mechanism"
)
_SKIP_STEP = (
    "find its producer, then delete the records up to there with Kafka's "
    "kafka-delete-records.sh, or name another topic"
)
_TRUST = (
    "TLS certificate not trusted: check kafka.ca_file, kafka.cert_file and kafka.key_file, "
    "and that the port belongs to a TLS listener"
)
_CLOSED_AT_LOGIN = "the broker closes the connections during authentication"
#: Part of the error or of the client's log → our error and its text; the first match applies.
_MEANINGS: tuple[tuple[str, type[SinkError], str], ...] = (
    ("SaslAuthenticationFailedError", SinkError, _LOGIN),
    (_CLOSED_AT_LOGIN, SinkError, _LOGIN),
    (
        "UnsupportedSaslMechanismError",
        SinkError,
        "the broker does not support this kafka.mechanism; use one of its sasl.enabled.mechanisms",
    ),
    ("[SSL", SinkError, _TRUST),
    ("[X509", SinkError, _TRUST),
    (
        "AuthorizationFailedError",
        SinkError,
        "this user is not authorized; grant it an ACL on the topic and the group",
    ),
    ("UnknownTopicOrPartitionError", SinkError, NO_TOPIC),
    ("MessageSizeTooLargeError", PublishRejected, _TOO_LARGE),
    ("RecordListTooLargeError", PublishRejected, _TOO_LARGE),
    (
        "InvalidRecordError",
        PublishRejected,
        "the topic refuses the record; a compacted topic takes only records with a key",
    ),
    (
        "OffsetOutOfRangeError",
        SinkError,
        "records were deleted before they were read; raise the topic's retention.ms",
    ),
    (
        "UnsupportedCodecError",
        SinkError,
        "the library that decompresses these records is not installed: rebalancer doctor names it",
    ),
    (
        TOO_LARGE,
        SinkError,
        f"a batch of records is too large when it is decompressed; {_SKIP_STEP}",
    ),
    (UNREADABLE, SinkError, f"a batch of records cannot be decompressed; {_SKIP_STEP}"),
    ("CorruptRecordError", SinkError, f"a batch of records is damaged; {_SKIP_STEP}"),
    ("TopicAlreadyExistsError", SinkError, "the topic already exists; keep it, or delete it first"),
    (
        "InvalidReplicationFactorError",
        SinkError,
        "the cluster has too few brokers for that; lower --replication",
    ),
    ("PolicyViolationError", SinkError, "a policy of the cluster forbids this; ask its operator"),
    ("DNS", PublishTimeout, "the host name cannot be resolved; correct it in the topic's URI"),
)
_TIMEOUT = (
    "no answer; check that the broker runs, that host, port and kafka.security_protocol are "
    "those of one of its listeners and, with SASL, "
    "name and password"
)
_REASON = re.compile(r"(?:Bootstrap .* failed|Connection lost): (.*?)(?: \(backoff .*)?$")

#: The version is known once the broker answered the request before the login.
_CLOSED_AFTER_VERSION = re.compile(
    r"node_id=bootstrap\S* broker_version=\(.*Connection lost: .*socket disconnected"
)


@contextmanager
def kafka_errors(topic: TopicUri) -> Iterator[None]:
    """Raises SinkError, PublishTimeout or PublishRejected for errors of the client in the block;
    keeps the cause.
    """
    from kafka.errors import KafkaError

    connection_errors = _ConnectionErrors()
    logger = logging.getLogger("kafka")
    logger.addHandler(connection_errors)
    try:
        yield
    except KafkaError as error:
        raise _ours(topic, error, connection_errors.reasons()) from error
    except OSError as error:  # certificates, sockets
        raise SinkError(f"{topic}: {error}; {_TRUST}") from error
    finally:
        logger.removeHandler(connection_errors)


class _ConnectionErrors(logging.Handler):
    """Collects the client's log lines of failed connections: the reason is only there.

    kafka-python 3.0 drops the last bytes that arrive together with the end of a connection. On a
    busy machine these are the broker's answer to a wrong password, at every attempt.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._reasons: list[str] = []
        self._lost = self._closed_at_login = 0
        self._logged_in = False

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        found = _REASON.search(line)
        if found and found[1] not in self._reasons:
            self._reasons.append(found[1])
        self._lost += "Connection lost" in line
        self._closed_at_login += bool(_CLOSED_AFTER_VERSION.search(line))
        self._logged_in |= line.startswith("Bootstrap attempt")

    def reasons(self) -> list[str]:
        """The reasons in the order of their first line; a refused login needs two connections that
        end alike, and more of them than of others.
        """
        refused = self._closed_at_login >= 2 and self._closed_at_login * 2 > self._lost
        login = [_CLOSED_AT_LOGIN] if refused and not self._logged_in else []
        return [*self._reasons, *login]


def _ours(topic: TopicUri, error: BaseException, reasons: list[str]) -> SinkError:
    from kafka.errors import RetriableError

    described = _described(error)
    for sign, kind, meaning in _MEANINGS:
        for text in (described, *reasons):
            if sign in text:
                return kind(f"{topic}: {meaning} ({text[:300]})")
    if isinstance(error, RetriableError):
        return PublishTimeout(
            f"{topic}: {_TIMEOUT} ({reasons[-1][:300] if reasons else described})"
        )
    return SinkError(f"{topic}: Kafka answers {described}; look into the broker's log")


def _described(error: BaseException) -> str:
    text, name = " ".join(str(error).split()), type(error).__name__
    return text[:300] if name in text else f"{name}: {text[:300]}".removesuffix(": ")
