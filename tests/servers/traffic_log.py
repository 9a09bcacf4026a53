"""What producers and consumers saw: messages lost or doubled, and how long a topic paused while its
bundle moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

from strategies.model import Outcome

_NS = 1_000_000
#: Around a move: a pause may outlast the executor's look at where the bundle is.
_BEFORE_MS, _AFTER_MS = 100, 5_000
#: A client notices a pause of this length.
LONG_MS = 1_000.0


@dataclass
class TopicLog:
    """One topic. Times in ms since the epoch; `sent`: (sent, acknowledged) by number; `failed`:
    when the producer was told that a message is not kept; `received`: times in order of arrival.
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

    def pause_ms(self, since: float, until: float) -> float:
        """The longest time that a message took to its acknowledgement or its first delivery, among
        those that were sent then or were under way; 0 without any. The time between two messages of
        a slow producer is no pause.
        """
        arrivals = self.arrivals()
        under_way = (
            (sent, max(acked, arrivals.get(number, acked)))
            for number, (sent, acked) in self.sent.items()
            if sent <= until
        )
        return max((end - sent for sent, end in under_way if end >= since), default=0.0)


@dataclass(frozen=True)
class TrafficLog:
    """All topics by name."""

    topics: Mapping[str, TopicLog]

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
        """Messages that the producer was told are not kept."""
        return sum(len(topic.failed) for topic in self.topics.values())


@dataclass(frozen=True)
class Disturbance:
    """What clients noticed of something between two times. `pauses`: topic → its longest pause, ms;
    `errors`: topic → messages that its producer was told are not kept.
    """

    pauses: Mapping[str, float]
    errors: Mapping[str, int]

    @property
    def clients(self) -> list[str]:
        """Topics whose clients saw an error, or a pause that is LONG_MS or more."""
        return [
            topic
            for topic, pause in self.pauses.items()
            if pause >= LONG_MS or self.errors[topic] > 0
        ]

    @property
    def longest_ms(self) -> float:
        return max(self.pauses.values())

    def __str__(self) -> str:
        return (
            f"{len(self.clients)} of {len(self.pauses)} topics saw an error or a pause of "
            f"{LONG_MS / 1000:g} s or more; errors {sum(self.errors.values())}; longest pause "
            f"{self.longest_ms:.0f} ms, median of the topics' longest "
            f"{median(self.pauses.values()):.0f} ms"
        )


def disturbance(traffic: TrafficLog, since: float, until: float) -> Disturbance:
    """Between two times, ms since the epoch."""
    return Disturbance(
        {name: topic.pause_ms(since, until) for name, topic in traffic.topics.items()},
        {
            name: sum(since <= at <= until for at in topic.failed)
            for name, topic in traffic.topics.items()
        },
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
    """The log of `tests.servers.traffic` for topics in the plan's order."""
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
    return TrafficLog({name: topics[index] for index, name in enumerate(names)})
