"""The one place where errors of the Kafka client become errors of ours: what happened in a sentence, and the next step."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from sinks.topics.kafka.codecs import TOO_LARGE, UNREADABLE
from sinks.topics.uri import TopicUri
from strategies.errors import PublishRejected, PublishTimeout, SinkError

NO_TOPIC = "there is no such topic; make it with: rebalancer topics create"
_TOO_LARGE = "the record is larger than the topic allows; raise its max.message.bytes"
_LOGIN = "the broker refuses the login; check kafka.username, the content of kafka.password_file and kafka.mechanism"
_PAST = "find out who wrote it, then delete the records up to there with Kafka's kafka-delete-records.sh, or name another topic"
_TRUST = "no trust: check kafka.ca_file, kafka.cert_file and kafka.key_file, and that host and port belong to a listener with SSL"
#: What the error, or what the client said in its log before, contains → what we raise and say; the first that fits counts.
_MEANINGS: tuple[tuple[str, type[SinkError], str], ...] = (
    ("SaslAuthenticationFailedError", SinkError, _LOGIN),
    ("UnsupportedSaslMechanismError", SinkError, "the broker does not offer this kafka.mechanism; ask which one it has"),
    ("[SSL", SinkError, _TRUST),
    ("[X509", SinkError, _TRUST),
    ("AuthorizationFailedError", SinkError, "this user may not do that; ask for the right (an ACL) on the topic and the group"),
    ("UnknownTopicOrPartitionError", SinkError, NO_TOPIC),
    ("MessageSizeTooLargeError", PublishRejected, _TOO_LARGE),
    ("RecordListTooLargeError", PublishRejected, _TOO_LARGE),
    ("InvalidRecordError", PublishRejected, "the topic refuses the record; a compacted topic takes only records with a key"),
    ("OffsetOutOfRangeError", SinkError, "records were deleted before they were read; raise the topic's retention.ms"),
    ("UnsupportedCodecError", SinkError, "a library is missing here that unpacks these records: rebalancer doctor names it"),
    (TOO_LARGE, SinkError, f"a batch of records takes too much memory when it is unpacked; {_PAST}"),
    (UNREADABLE, SinkError, f"a batch of records cannot be unpacked; {_PAST}"),
    ("CorruptRecordError", SinkError, f"a batch of records is damaged; {_PAST}"),
    ("TopicAlreadyExistsError", SinkError, "the topic is there already; leave it, or delete it first"),
    ("InvalidReplicationFactorError", SinkError, "the cluster has too few brokers for that; lower --replication"),
    ("PolicyViolationError", SinkError, "the cluster's rules forbid that; ask who runs it"),
    ("DNS", PublishTimeout, "the host is not known; correct the name in the topic's URI"),
)
_SILENT = (
    "no answer; check that the broker runs, that host, port and kafka.security_protocol are those of one of its listeners and, with SASL, "
    "name and password"
)
_REASON = re.compile(r"(?:Bootstrap .* failed|Connection lost): (.*?)(?: \(backoff .*)?$")


@contextmanager
def kafka_errors(topic: TopicUri) -> Iterator[None]:
    """Raises SinkError, PublishTimeout or PublishRejected for what the client raises inside; the cause is kept."""
    from kafka.errors import KafkaError

    heard = _Heard()
    logger = logging.getLogger("kafka")
    logger.addHandler(heard)
    try:
        yield
    except KafkaError as error:
        raise _ours(topic, error, heard.reasons) from error
    except OSError as error:  # certificates, sockets
        raise SinkError(f"{topic}: {error}; {_TRUST}") from error
    finally:
        logger.removeHandler(heard)


class _Heard(logging.Handler):
    """Why a connection failed stands only in the client's log, which nobody should have to read."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = _REASON.search(record.getMessage())
        if found and found[1] not in self.reasons:
            self.reasons.append(found[1])


def _ours(topic: TopicUri, error: BaseException, reasons: list[str]) -> SinkError:
    from kafka.errors import RetriableError

    told = _told(error)
    for sign, kind, meaning in _MEANINGS:
        for text in (told, *reasons):
            if sign in text:
                return kind(f"{topic}: {meaning} ({text[:300]})")
    if isinstance(error, RetriableError):
        return PublishTimeout(f"{topic}: {_SILENT} ({reasons[-1][:300] if reasons else told})")
    return SinkError(f"{topic}: Kafka answers {told}; look into the broker's log")


def _told(error: BaseException) -> str:
    text, name = " ".join(str(error).split()), type(error).__name__
    return text[:300] if name in text else f"{name}: {text[:300]}".removesuffix(": ")
