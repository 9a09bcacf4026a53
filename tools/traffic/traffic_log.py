"""What producers and consumers saw: messages lost or doubled, how long a topic paused while its
bundle moved, and which brokers disconnected them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from strategies.cluster.model import Outcome
from tools.traffic.connections import Connection, connections_log, read_connections

_NS = 1_000_000
#: Around a move: a pause may outlast the executor's look at where the bundle is.
_BEFORE_MS, _AFTER_MS = 100, 5_000
#: A client notices a pause of this length.
LONG_MS = 1_000.0


class Pause(NamedTuple):
    """From when a message was sent until it was acknowledged and delivered; ms since the epoch."""

    since: float
    until: float

    @property
    def ms(self) -> float:
        return self.until - self.since


@dataclass
class TopicLog:
    """One topic. Times in ms since the epoch; `sent`: (sent, acknowledged) by number; `failed`:
    when the producer learned that a message is not kept; `received`: times in order of arrival.
    """

    sent: dict[int, tuple[float, float]] = field(default_factory=dict)
    failed: list[float] = field(default_factory=list)
    received: list[tuple[float, int]] = field(default_factory=list)

    @property
    def lost(self) -> set[int]:
        """Acknowledged to the producer, and never seen by the consumer."""
        return self.sent.keys() - {number for _, number in self.received}

    @property
    def doubled(self) -> int:
        """Deliveries of what had been delivered before."""
        return len(self.received) - len({number for _, number in self.received})

    def slowest_send_ms(self, since: float, until: float) -> float:
        """The longest time from sending to acknowledgement among messages that were sent then, or
        were under way; 0 without any.
        """
        return max(
            (
                acked - sent
                for sent, acked in self.sent.values()
                if acked >= since and sent <= until
            ),
            default=0.0,
        )

    def widest_gap_ms(self, since: float, until: float) -> float:
        """The longest time between two deliveries then."""
        times = [at for at, _ in self.received if since <= at <= until]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def arrivals(self) -> dict[int, float]:
        """When each message was delivered first."""
        first: dict[int, float] = {}
        for at, number in self.received:
            first.setdefault(number, at)
        return first

    def longest_pause(self, since: float, until: float) -> Pause:
        """The message that took longest to its acknowledgement or its first delivery, among those
        that were sent then or were under way; one that took no time without any. The time between
        two messages of a slow producer is no pause.
        """
        arrivals = self.arrivals()
        under_way = (
            Pause(sent, max(acked, arrivals.get(number, acked)))
            for number, (sent, acked) in self.sent.items()
            if sent <= until
        )
        return max(
            (one for one in under_way if one.until >= since),
            key=lambda one: one.ms,
            default=Pause(since, since),
        )


@dataclass(frozen=True)
class TrafficLog:
    """All topics by name, and the connections of their clients."""

    topics: Mapping[str, TopicLog]
    connections: Sequence[Connection] = ()

    @property
    def acknowledged(self) -> int:
        return sum(len(topic.sent) for topic in self.topics.values())

    @property
    def lost(self) -> dict[str, set[int]]:
        """Topic → numbers, only topics that lost something."""
        return {name: topic.lost for name, topic in self.topics.items() if topic.lost}

    @property
    def doubled(self) -> int:
        return sum(topic.doubled for topic in self.topics.values())

    @property
    def failed(self) -> int:
        """Messages that, as the producer learned, are not kept."""
        return sum(len(topic.failed) for topic in self.topics.values())


@dataclass(frozen=True)
class Disturbance:
    """What clients noticed of something between two times, ms since the epoch. `pauses`: topic →
    its longest one; `errors`: topic → when its producer learned that a message is not kept;
    `connections`: of all topics.
    """

    since: float
    until: float
    pauses: Mapping[str, Pause]
    errors: Mapping[str, Sequence[float]]
    connections: Sequence[Connection]

    @property
    def clients(self) -> list[str]:
        """Topics whose clients saw an error, or a pause that is LONG_MS or more."""
        return [
            topic
            for topic, pause in self.pauses.items()
            if pause.ms >= LONG_MS or self.errors[topic]
        ]

    @property
    def longest_ms(self) -> float:
        return max(pause.ms for pause in self.pauses.values())

    def cut_off(self, broker: str) -> list[str]:
        """The connections that this broker still had then, and ended: those from before, and those
        that came and went meanwhile. Each with its topic and its times after the beginning.
        """
        return [
            f"{one.topic}: its {self._described(one)}"
            for one in self.connections
            if one.host == broker.rpartition(":")[0]
            if one.until >= self.since and (one.since < self.since or one.until <= self.until)
        ]

    def __str__(self) -> str:
        pauses = [pause.ms for pause in self.pauses.values()]
        total = (
            f"{len(self.clients)} of {len(pauses)} topics saw an error or a pause of "
            f"{LONG_MS / 1000:g} s or more; errors {sum(map(len, self.errors.values()))}; longest "
            f"pause {self.longest_ms:.0f} ms, median of the topics' longest {median(pauses):.0f} ms"
        )
        return "\n    ".join([total, *map(self._detail, self.clients)])

    def _detail(self, topic: str) -> str:
        """When, for how long, and where its clients were meanwhile; times after the beginning."""
        pause, errors = self.pauses[topic], self.errors[topic]
        there = [
            self._described(one)
            for one in self.connections
            if one.topic == topic and one.since <= pause.until and one.until >= pause.since
        ]
        return (
            f"{topic}: {pause.ms:.0f} ms from {self._after(pause.since)}; {len(errors)} errors"
            f"{''.join(f', the first at {self._after(at)}' for at in errors[:1])}; "
            f"{'; '.join(there)}"
        )

    def _described(self, one: Connection) -> str:
        return (
            f"{one.client} was on {one.host} from {self._after(one.since)} to "
            f"{self._after(one.until)}"
        )

    def _after(self, at: float) -> str:
        return f"{at - self.since:+.0f} ms"


def disturbance(traffic: TrafficLog, since: float, until: float) -> Disturbance:
    """Between two times, ms since the epoch."""
    return Disturbance(
        since,
        until,
        {name: topic.longest_pause(since, until) for name, topic in traffic.topics.items()},
        {
            name: [at for at in topic.failed if since <= at <= until]
            for name, topic in traffic.topics.items()
        },
        traffic.connections,
    )


@dataclass(frozen=True)
class Pauses:
    """What clients noticed of moves, ms, one entry per move."""

    slowest_sends: Sequence[float]
    widest_gaps: Sequence[float]
    calls: Sequence[float]

    def __str__(self) -> str:
        figures = {
            "slowest send": self.slowest_sends,
            "widest gap at the consumer": self.widest_gaps,
            "from call to arrival": self.calls,
        }
        return ", ".join(
            f"{name} {median(values):.0f} ms (at most {max(values):.0f})"
            for name, values in figures.items()
            if values
        )


def pauses(outcomes: Sequence[Outcome], traffic: TrafficLog, topics: Mapping[str, str]) -> Pauses:
    """Of the moves that were carried out; `topics`: bundle → its topic."""
    moved = [one for one in outcomes if one.status == "applied"]
    seen = [
        (traffic.topics[topics[one.bundle]], one.ts - one.took_ms - _BEFORE_MS, one.ts + _AFTER_MS)
        for one in moved
    ]
    return Pauses(
        [log.slowest_send_ms(since, until) for log, since, until in seen],
        [log.widest_gap_ms(since, until) for log, since, until in seen],
        [float(one.took_ms) for one in moved],
    )


def read_traffic(file: Path, names: Sequence[str]) -> TrafficLog:
    """The logs of `tools.traffic.traffic` for topics in the plan's order."""
    topics: defaultdict[int, TopicLog] = defaultdict(TopicLog)
    for line in file.read_text("utf-8").splitlines():
        kind, topic, number, *times = line.split()
        match kind:
            case "sent":
                sent, acked = times
                topics[int(topic)].sent[int(number)] = (int(sent) / _NS, int(acked) / _NS)
            case "received":
                topics[int(topic)].received.append((int(times[0]) / _NS, int(number)))
            case _:
                topics[int(topic)].failed.append(int(times[1]) / _NS)
    connections = read_connections(connections_log(file))
    return TrafficLog({name: topics[index] for index, name in enumerate(names)}, connections)
