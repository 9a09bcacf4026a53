"""What a viewer may see at one moment: immutable, and shared by all viewers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from pulsar_rebalancer.decisions.explain.answers import decisive
from pulsar_rebalancer.decisions.explain.history import DecisionHistory
from pulsar_rebalancer.decisions.live.packed import PackedRound
from pulsar_rebalancer.decisions.status import CollectionPass
from strategies.cluster.model import Command, Outcome
from strategies.executor.approvals import Approval, ApprovalOutcome

T = TypeVar("T")


class OnceMade:
    """Documents made from a snapshot: each once, by the first viewer who asks for it. One may be
    made from another.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: dict[str, object] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """The document of this name."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]  # type: ignore[return-value]


@dataclass(frozen=True)
class LiveDecisions:
    """The decisions about one cluster. `version`: number of the newest change; `rounds`: the newest
    ones, oldest first; `commands`, `outcomes` and `digests` (SHA-256 of the command's record) of
    these rounds by the command's id; `approvals`: what people decided, with the executors' answers.
    """

    version: int = 0
    rounds: tuple[PackedRound, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    outcomes: Mapping[str, tuple[Outcome, ...]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    approvals: tuple[Approval, ...] = ()
    answers: tuple[ApprovalOutcome, ...] = ()
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)

    @cached_property
    def history(self) -> DecisionHistory:
        """The same, as `explain` reads it."""
        return DecisionHistory(
            rounds=tuple(one.round for one in self.rounds),
            commands=tuple(self.commands.values()),
            outcomes=tuple(one for given in self.outcomes.values() for one in given),
            has_outcomes=True,
            approval_outcomes=self.answers,
            digests=self.digests,
        )

    @cached_property
    def by_round(self) -> Mapping[tuple[int, int], tuple[Command, ...]]:
        """Epoch and number → the commands of the round."""
        found: dict[tuple[int, int], list[Command]] = {}
        for one in self.commands.values():
            found.setdefault((one.epoch, one.round), []).append(one)
        return {key: tuple(commands) for key, commands in found.items()}

    def outcome_of(self, command: Command) -> Outcome | None:
        """The decisive outcome of a command, or None."""
        return decisive(self.outcomes.get(command.id, ()))


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """One cluster. `version`: number of its newest change; `now_ms`: when this was made;
    `report_ms`: time of the newest report; `rejected`: reason code → number of records.
    """

    cluster: str
    version: int
    now_ms: int
    decisions: LiveDecisions = LiveDecisions()
    report_ms: int | None = None
    sweep: CollectionPass | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    made: OnceMade = field(default_factory=OnceMade, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TopicHealth:
    """Whether a topic is read. `records`: number of records read; `error`: why it is not read, as a
    sentence, empty if it is; `since_ms`: time of the first failure; `caught_up`: whether all
    records that existed at the start were read.
    """

    name: str
    uri: str
    records: int = 0
    error: str = ""
    since_ms: int | None = None
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """All clusters by name. `version`: number of the newest change; `topics`: in the order of the
    settings; `paused`: whether the pause file of this machine exists, None = unknown; `starting`:
    the newest line of a job of this machine that starts, otherwise empty; `left_out`: number of
    records of clusters above the limit; `skipped`: number of records that are no round, command or
    outcome.
    """

    version: int = 0
    clusters: Mapping[str, LiveCluster] = field(default_factory=dict)
    topics: tuple[TopicHealth, ...] = ()
    paused: bool | None = None
    starting: str = ""
    left_out: int = 0
    skipped: int = 0
