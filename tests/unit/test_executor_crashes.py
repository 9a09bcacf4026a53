"""An executor that waits for people dies at any moment and applies only what was approved."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sinks.wire.record_decoding import decode_answer
from strategies.cluster.model import Outcome
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import APPLY, FOUR, NEVER, ONE, THREE, TWO, lives_until_done
from tests.unit.plan_builders import APPROVALS_KEY, approval, give

ASKS = replace(APPLY, approvals_key=APPROVALS_KEY, approval_required=True, at_once=2)


@dataclass(frozen=True)
class Story:
    """An approved and a denied plan, and records that are forged, repeated or late."""

    pulsar: FakePulsar
    control: Control
    dies: Iterator[int]

    def run(self) -> int:
        """Number of lives."""
        one, two, three = self.pulsar.cluster.brokers
        plan = [command(ONE, one, two), command(TWO, one, three), command(FOUR, one, two)]
        denied = command(THREE, one, two, round=2)
        self.pulsar.cluster.owners.update(dict.fromkeys((ONE, TWO, THREE, FOUR), one))
        self.control.send(*plan[:2], denied)
        lives = self._live()
        give(self.control, forged := approval(denied), key=None)
        records = give(self.control, given := approval(*plan))
        lives += self._live()
        self.control.write("approvals", records)
        give(self.control, refused := approval(denied, action="deny"))
        give(self.control, late := approval(*plan, action="deny"))
        lives += self._live()
        self.control.send(plan[2])
        lives += self._live()

        ended = {done.command_id: done for done in self.control.outcomes()}
        # Who died in both unloads that a command may have begins no third one.
        lost = {one.id for one in plan if died_twice(ended[one.id])}
        applied = Counter(done.bundle for done in self.pulsar.cluster.applied)
        assert applied == {one.bundle: 1 for one in plan if one.id not in lost}
        assert lives > 2 * len(lost)
        answers = map(decode_answer, {*self.control.read("outcomes")})
        told = Counter(
            one.command_id if isinstance(one, Outcome) else one.approval_id for one in answers
        )
        # The repeated approval has an answer of its own.
        ids = (*(one.id for one in (*plan, denied)), forged.id, given.id, refused.id, late.id)
        assert told == dict.fromkeys(ids, 1) | {given.id: 2}
        statuses = {id_: done.status for id_, done in ended.items() if id_ not in lost}
        moved = {one.id: "applied" for one in plan if one.id not in lost}
        assert statuses == {**moved, denied.id: "refused"}
        codes = {one.approval_id: (one.reason or "") for one in self.control.answers()}
        assert codes[forged.id].startswith("unsigned:")
        assert codes[late.id].startswith("already-decided:")
        return lives

    def _live(self) -> int:
        return lives_until_done(self.pulsar, self.control, ASKS, self.dies)


def died_twice(done: Outcome) -> bool:
    interrupted = (done.reason or "").startswith("interrupted:")
    return done.status == "failed" and interrupted and done.cost.unloads == 2


def tell(folder: Path, dies: Iterator[int]) -> int:
    with FakePulsar(Cluster()) as pulsar:
        return Story(pulsar, Control(folder), dies).run()


def test_the_story_without_a_death_and_the_key_is_nowhere(tmp_path: Path) -> None:
    assert tell(tmp_path, iter([])) == 4
    secret = APPROVALS_KEY.secret.reveal()
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files if secret in file.read_bytes()]


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(4))
def test_a_death_at_each_moment_of_each_part(tmp_path: Path, part: int) -> None:
    for moment in range(NEVER):
        dies = iter([*[NEVER] * part, moment])
        if tell(tmp_path / str(moment), dies) == 4:
            break
    assert moment > 10, "the fuse counts moments"


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(12))
def test_many_deaths(tmp_path: Path, seed: int) -> None:
    """Lives so short that hardly any command is finished in the one that began it."""
    rng = random.Random(seed)
    lives = tell(tmp_path, iter([rng.randrange(25) for _ in range(40)]))
    assert lives > 10
