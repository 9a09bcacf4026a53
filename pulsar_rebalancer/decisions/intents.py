"""Intents of operators as people give and follow them: the newest rounds, the judgement before a
record is written, and the record itself.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime

from pulsar_rebalancer.decisions.log import usable_key
from pulsar_rebalancer.decisions.read_status import RECENT_MS
from sinks.topics.open_topics import (
    Reader,
    TopicRecord,
    check_read,
    open_publisher,
    open_reader,
    records_of,
)
from sinks.topics.topic_settings import Connections, TopicUri
from sinks.wire.operator_records import check_person, encode_intent
from sinks.wire.record_decoding import decode_rejected, decode_round
from sinks.wire.signing_keys import SigningKey, signing_key
from strategies.cluster.intent_records_and_states import Intent, IntentStatus
from strategies.cluster.model import Round
from strategies.cluster.remembered_intents import intents_of_statuses
from strategies.errors import RebalancerError, SettingsError, SinkError, WireError
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.accept_intent import TOO_MANY, accept
from strategies.fold.intent_refusals import IntentFleet, IntentRefusal

_DURATION = re.compile(r"([1-9][0-9]{0,5}) ?(min|m|h|d)")
_UNITS_MS = {"min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class IntentError(RebalancerError):
    """A drain or a roll that cannot be asked for, or was refused."""


def newest_rounds(connections: Connections, now_ms: int) -> dict[str, Round]:
    """The newest round of each cluster by name, of the last hour: without any, the job does not
    run. Raises SettingsError, SinkError.
    """
    found: dict[str, Round] = {}
    since_ms = now_ms - RECENT_MS
    key = usable_key(connections.signing, signing_key)
    records = records_of(connections.topics.rounds, connections.access, since_ms)
    for done in _decoded(records, key):
        before = found.get(done.cluster)
        if done.ts >= since_ms and (before is None or _place(before) < _place(done)):
            found[done.cluster] = done
    return dict(sorted(found.items()))


def round_of_cluster(rounds: Mapping[str, Round], wanted: str, topic: TopicUri) -> Round:
    """The newest round of the cluster; `wanted`: empty = the only one; `topic`: where the rounds
    were read. Raises IntentError, SettingsError.
    """
    if wanted in rounds:
        return rounds[wanted]
    if not wanted and len(rounds) == 1:
        return next(iter(rounds.values()))
    others = ", ".join(rounds)
    if wanted or not rounds:
        of = f"of cluster {wanted} " if wanted else ""
        known = (
            f"There are rounds of {others}: name one with --cluster."
            if rounds
            else "If the job has another topic, name its settings with --config."
        )
        raise IntentError(
            f"no round {of}was published on {topic} in the last hour, and only rounds carry out "
            f"drains and rolls. {known} Otherwise start `rebalancer run` and `rebalancer collect`; "
            "`rebalancer doctor` checks them."
        )
    raise SettingsError([f"pulsar.cluster: is empty; name one of {others} with --cluster"])


def judge(done: Round, intent: Intent) -> IntentRefusal | None:
    """The reason why the job would refuse the record, by the newest round; None if it would accept
    it.
    """
    excluded = excluded_by(done)
    known = {*done.brokers, *done.usage, *done.stale, *excluded}
    live = {*done.usage, *done.brokers, *excluded} - {*done.stale}
    judged = accept(
        intents_of_statuses(done.intents),
        IntentFleet(sorted(known), sorted(live), excluded),
        intent,
        max(done.ts, intent.ts),
    )
    return judged if isinstance(judged, IntentRefusal) else None


def write_intents(
    connections: Connections, key: SigningKey | None, intents: Sequence[Intent]
) -> None:
    """Signs the records, if there is a key, and returns when they are on the telemetry topic. The
    same record may be published again: it counts once. Raises SettingsError, SinkError.
    """
    with closing(open_publisher(connections.topics.telemetry, connections.access)) as publisher:
        for intent in intents:
            record = encode_intent(intent)
            publisher.publish(intent.cluster, record if key is None else key.sign(record))
        publisher.flush()


def what_of(status: IntentStatus) -> str:
    """`drain b1:8080`, `roll of 4 brokers`, `move t/ns/0x00000000_0x40000000 to b1:8080`."""
    if status.bundle is not None:
        return f"{status.action} {status.bundle}" + (
            f" to {status.broker}" if status.broker else ""
        )
    if status.broker is not None:
        return f"{status.action} {status.broker}"
    brokers = counted(len(status.phases), "broker")
    return f"roll of {brokers}" if status.phases else status.action


def excluded_by(done: Round) -> list[str]:
    """The brokers that limits.excluded_brokers left out of a round."""
    return [name for skip in done.skips if skip.code == "excluded-broker" for name in skip.names]


def active_roll(done: Round) -> IntentStatus | None:
    """The roll that has not ended, if there is one."""
    return next((one for one in done.intents if one.state in ("rolling", "halted")), None)


def check_words(by: str, reason: str) -> None:
    """Raises SettingsError for an empty or too long person or reason."""
    try:
        check_person(by, reason)
    except WireError as error:
        raise SettingsError([f"--{error.text.removeprefix('$.')}"]) from None


def until_ms(text: str, now_ms: int) -> int:
    """`2h`, `90 min`, or a later time such as 2026-01-31T12:00:00Z, as ms since the epoch. Raises
    SettingsError.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is not None:
        return now_ms + int(match[1]) * _UNITS_MS[match[2]]
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            [
                f"--until: {text!r} is neither a duration such as 90min, 2h or 1d nor a time such "
                "as 2026-01-31T12:00:00Z"
            ]
        ) from None
    end_ms = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    if end_ms <= now_ms:
        raise SettingsError([f"--until: {text} has passed (UTC); name a later time"])
    return end_ms


class IntentAnswers:
    """Follows the rounds of one cluster after a known one, and the rejected records."""

    def __init__(
        self,
        connections: Connections,
        known: Round,
        now_ms: int,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`known`: the round after which to begin; `now_ms`: since the epoch. Opens nothing yet."""
        self._cluster, self._key = known.cluster, usable_key(connections.signing, signing_key)
        since_ms = now_ms - RECENT_MS
        topics = connections.topics
        self._rounds = FollowedTopic(topics.rounds, connections, since_ms, log)
        self._rejected = FollowedTopic(topics.rejected, connections, since_ms, log)
        self._last = _place(known)
        self._refused: dict[bytes, str] = {}

    def rounds(self) -> list[Round]:
        """The rounds since the last call, in order."""
        found = {
            _place(done): done
            for done in _decoded(self._rounds.read(), self._key)
            if done.cluster == self._cluster and _place(done) > self._last
        }
        if found:
            self._last = max(found)
        return [found[place] for place in sorted(found)]

    def rejection(self, id_: str) -> str | None:
        """The reason why a record was rejected and no round answers it; None if it was not."""
        for record in self._rejected.read():
            with suppress(WireError):
                row = decode_rejected(record.value)
                answered = row.code == "intent-refused" and f"[{TOO_MANY}]" not in row.text
                if b'"intent"' in row.original and not answered:
                    self._refused[row.original] = f"{row.text} [{row.code}]"
        wanted = id_.encode()
        return next((text for value, text in self._refused.items() if wanted in value), None)

    def answer(self, id_: str, done: Iterable[Round]) -> IntentStatus | str | None:
        """The answer of these rounds to the record with this id: its status, or why it was
        rejected before any round saw it.
        """
        said = (status for one in done for status in one.intents)
        answers = (status for status in said if id_ in (status.id, status.record))
        return next(answers, None) or self.rejection(id_)

    def close(self) -> None:
        """Closes the readers."""
        self._rounds.close()
        self._rejected.close()


class FollowedTopic:
    """A topic that is read on, whatever happens to its servers. A roll outlives the restarts of
    brokers that its topics are on.
    """

    def __init__(
        self,
        topic: TopicUri,
        connections: Connections,
        since_ms: int,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`since_ms`: records published before are not read; `log`: gets a line when the topic is
        lost, and when it is found again.
        """
        self._topic, self._connections, self._since_ms = topic, connections, since_ms
        self._log, self._lost = log, False
        self._reader: Reader | None = None

    def read(self) -> Sequence[TopicRecord]:
        """The next records; none if there are none, or the topic cannot be read now."""
        try:
            if self._reader is None:
                self._reader = open_reader(
                    self._topic,
                    self._connections.access,
                    follow=True,
                    since_ms=max(0, self._since_ms),
                )
            records = self._reader.read()
        except SinkError as error:
            if not self._lost:
                self._log(f"{self._topic} cannot be read, trying again: {error}")
            self._lost = True
            self.close()
            return ()
        if self._lost:
            self._log(f"{self._topic} is read again")
        self._lost = False
        return records

    def close(self) -> None:
        """Closes the reader."""
        if self._reader is not None:
            with suppress(SinkError):
                self._reader.close()
            self._reader = None


def _decoded(records: Iterable[TopicRecord], key: SigningKey | None) -> Iterator[Round]:
    """The rounds among the records; with a key, those that it has signed."""
    for record in records:
        with suppress(WireError):
            check_read(record)
            if key is None or key.check(record.value) == "signed":
                yield decode_round(record.value)


def _place(done: Round) -> tuple[int, int]:
    return (done.epoch, done.round)
