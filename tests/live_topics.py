"""Topics of a made-up cluster, as a live page reads them: any number of brokers and rounds that end
now, moves with every kind of answer, and a plan that waits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sin
from pathlib import Path

import numpy as np

from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import file_topic_uri
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.cluster.model import Command, Expected, Outcome, OutcomeStatus, Round, Skip
from strategies.cluster.round_figures import RoundState
from strategies.figures.usage_after_moves import spread
from tests.control_topic import command, outcome
from tests.notice_builders import a_round
from tests.telemetry_lines import T0, load_report, sweep

KINDS = ("telemetry", "commands", "rounds", "rejected", "outcomes")
_ANSWERS: tuple[tuple[OutcomeStatus, str | None], ...] = (
    ("applied", None),
    ("applied", None),
    ("refused", "paused: this executor is paused"),
    ("applied", None),
    ("failed", "timed-out: the broker did not answer"),
    ("dry-run", None),
)
_IDLE = RoundState(
    "balanced",
    "nothing has to move: no gap lasts: broker-1:8080 is at least 2.1 points above broker-7:8080 "
    "in each of the last 3 samples, and 8.0 would count [even]",
    "Nothing to do.",
)
_EARLY = RoundState(
    "waiting",
    "it is too early to move anything: no two brokers have enough samples to compare yet "
    "[waiting-for-samples]",
    "Wait for three reports of each broker; if it lasts, check with `rebalancer doctor` how often "
    "brokers report, and find what keeps changing their bundles.",
)


@dataclass(frozen=True)
class MadeUpCluster:
    """`now_ms`: time of the newest round; every `acts_every`-th round has `moves` commands; the
    newest round is one of them if `waits`.
    """

    now_ms: int
    cluster: str = "production"
    brokers: int = 8
    rounds: int = 60
    interval_ms: int = 60_000
    moves: int = 6
    acts_every: int = 15
    waits: bool = True
    broker: str = "broker-{}.pulsar.example.org:8080"
    bundle: str = "shop/orders-{}/0x{:08x}_0x{:08x}"

    def names(self) -> tuple[str, ...]:
        """All brokers."""
        return tuple(self.broker.format(number) for number in range(self.brokers))

    def time_of(self, number: int) -> int:
        """When round `number` (from 1) closed."""
        return self.now_ms - (self.rounds - number) * self.interval_ms

    def acts(self, number: int) -> bool:
        return (self.rounds - number) % self.acts_every == (0 if self.waits else 7)

    def made(self) -> Iterator[tuple[Round, list[Command], list[Outcome]]]:
        names = self.names()
        phases = np.arange(self.brokers) * 2.399963
        for number in range(1, self.rounds + 1):
            apart = 0.25 / (1 + (number % self.acts_every) / 3)
            level = 0.45 + 0.12 * sin(number / 60) + apart * np.sin(phases + number / 300)
            usage = dict(zip(names, np.round(np.clip(level, 0.01, 1.2), 4).tolist(), strict=True))
            commands = list(self._commands(number, usage)) if self.acts(number) else []
            yield (self._round(number, usage, commands), commands, self._outcomes(number, commands))

    def _commands(self, number: int, usage: dict[str, float]) -> Iterator[Command]:
        ordered = sorted(usage, key=lambda name: usage[name])
        for place in range(min(self.moves, self.brokers // 2)):
            source, destination = ordered[-1 - place], ordered[place]
            low = (number * 37 + place * 101) % 200 * 0x01000000
            before, after = usage[source], usage[destination]
            yield command(
                self.bundle.format(place % 3, low, low + 0x01000000),
                source,
                destination,
                id=f"{self.cluster}-{number:05d}-{place:03d}",
                cluster=self.cluster,
                round=number,
                strategy="steady/fixed",
                code="lasting-gap",
                text=f"{source} was at least 9.4 points above {destination} in each of the last 3 "
                "samples",
                evidence={"lasting_points": 8.0},
                expected=Expected(before, before - 0.05, after, after + 0.05),
                issued_at_ms=self.time_of(number),
                expires_at_ms=self.time_of(number) + 300_000,
            )

    def _round(self, number: int, usage: dict[str, float], commands: list[Command]) -> Round:
        after = dict(usage)
        for one in commands:
            after[one.source] = round(after[one.source] - 0.05, 4)
            if one.destination is not None:
                after[one.destination] = round(after[one.destination] + 0.05, 4)
        text = f"the round has {len(commands)} commands: {len(commands)} transfers"
        acting = RoundState("acting", text, "Nothing to do: executors apply the commands.")
        idle = _EARLY if number % 7 < 2 else _IDLE
        return replace(
            a_round("acting", number),
            cluster=self.cluster,
            ts=self.time_of(number),
            strategy="steady/fixed",
            brokers=tuple(usage),
            usage=usage,
            usage_after=after,
            spread=spread([*usage.values()]),
            spread_after=spread([*after.values()]),
            throughput_spread=spread([*usage.values()]),
            commands=tuple(one.id for one in commands),
            skips=() if commands else (Skip("cluster", (), "even", "no gap lasts"),),
            digest="0" * 16,
            state=acting if commands else idle,
        )

    def _outcomes(self, number: int, commands: list[Command]) -> list[Outcome]:
        if self.waits and number == self.rounds:
            return []
        return [
            outcome(one, *_ANSWERS[(number + place) % len(_ANSWERS)], 1 + place)
            for place, one in enumerate(commands)
        ]


def publish(folder: Path, cluster: MadeUpCluster, only_newest: int | None = None) -> None:
    """Writes the topics of a cluster below a folder; with `only_newest`, this number of rounds."""
    writers = {kind: FileTopicWriter(folder / kind) for kind in KINDS}
    for done, commands, outcomes in cluster.made():
        if only_newest is not None and done.round <= cluster.rounds - only_newest:
            continue
        writers["rounds"].append([encode_round(done)])
        writers["commands"].append([encode_command(one) for one in commands])
        writers["outcomes"].append([encode_outcome(one) for one in outcomes])
    names = cluster.names()
    seconds = (cluster.now_ms - T0) / 1_000
    writers["telemetry"].append(
        [
            *(load_report(name, seconds - 1, {}, cluster=cluster.cluster) for name in names[:3]),
            sweep(seconds, *names[:50], cluster=cluster.cluster),
        ]
    )
    for writer in writers.values():
        writer.close()


def settings_of(folder: Path) -> list[str]:
    """`path=value` of the topics below a folder, for `--set`."""
    topics = [f"topics.{kind}={file_topic_uri(folder / kind)}" for kind in (*KINDS, "approvals")]
    return [*topics, f"executor.state={folder / 'executor'}"]
