"""Jobs and executors that are killed between a person's request and its outcome."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from strategies.cluster.cluster_state import InMemoryStore
from strategies.cluster.model import Command, OutcomeStatus
from strategies.fold.engine import EngineSettings
from tests.control_topic import Control, now_ms
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import APPLY, BUNDLES, NEVER, Death, Fuse, Life, run
from tests.world.intents import intent
from tests.world.little_cluster import LittleCluster


@dataclass
class Killed:
    """A job and an executor of a fake cluster, both killed at random."""

    pulsar: FakePulsar
    control: Control
    chance: Random
    deaths: int = 0
    made: LittleCluster = field(init=False)
    #: What the job restarts from: its state, and the number of records before it.
    checkpoint: tuple[InMemoryStore, int] = field(init=False)

    def __post_init__(self) -> None:
        first, *others = self.pulsar.cluster.brokers
        self.pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, first))
        brokers = {first: dict.fromkeys(BUNDLES, 2.0)} | {name: {} for name in others}
        self.made = LittleCluster(brokers, EngineSettings(), self.carry_out)
        self.save()

    def save(self) -> None:
        self.checkpoint = deepcopy(self.made.store), len(self.made.log)

    def restart_job(self) -> None:
        """Folds the records since the checkpoint again, which publishes their commands again."""
        self.deaths += 1
        store, position = deepcopy(self.checkpoint[0]), self.checkpoint[1]
        events = [
            event
            for record in self.made.log[position:]
            for event in self.made.engine.fold(record, store)
        ]
        self.made.store = store
        self.control.send(*(event for event in events if isinstance(event, Command)))
        self.live()

    def carry_out(self, command: Command) -> OutcomeStatus | None:
        self.control.send(command)
        self.live()
        answers = {one.command_id: one.status for one in self.control.outcomes()}
        return answers[command.id]

    def live(self) -> None:
        """Lives of an executor until one has worked off all commands."""
        later_ms = self.made.now_ms + 2_000 - now_ms()
        while True:
            fuse = Fuse(self.chance.randrange(40) if self.chance.random() < 0.6 else NEVER)
            try:
                run(self.pulsar, self.control, APPLY, Life(later_ms=later_ms, fuse=fuse))
                return
            except Death:
                self.deaths += 1


@pytest.mark.parametrize("seed", range(20))
def test_nothing_moves_twice_whoever_is_killed(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    with FakePulsar(Cluster()) as pulsar:
        story = Killed(pulsar, Control(tmp_path), chance)
        made = story.made
        last = made.passes()
        wanted = [None, *list(made.brokers)[1:]]
        destinations = dict(zip(BUNDLES, chance.choices(wanted, k=4), strict=True))
        for number, (bundle, to) in enumerate(destinations.items(), 1):
            made.tell(intent(number, "move", made.seconds + number, to, bundle=bundle))
            if chance.random() < 0.5:
                story.save()
        for _ in range(6):
            if chance.random() < 0.5:
                story.restart_job()
            last = made.passes()
            if chance.random() < 0.5:
                story.save()
            if chance.random() < 0.3:
                story.restart_job()

        states = {one.bundle: one.state for one in last.intents}
        moved = {bundle for bundle, state in states.items() if state == "done"}
        unloads = Counter(one.bundle for one in pulsar.cluster.applied)
        assert set(states) == set(BUNDLES)
        # A process that dies in both unloads of a command begins no third one.
        assert all(state in ("done", "cancelled") for state in states.values())
        assert unloads == dict.fromkeys(moved, 1)
        assert all(destinations[one] in (None, pulsar.cluster.owners[one]) for one in moved if one)
        assert len(moved) > 1
        assert story.deaths
