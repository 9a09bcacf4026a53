"""What `rebalancer explain` prints is in explain.txt: of commands, rounds, brokers, bundles and
topics, of all kinds of outcomes, of several epochs and clusters, and of what is not there.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sinks.wire.record_decoding import decode_command, decode_round
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.bundles import parse_bundle, topic_hash
from strategies.cluster.model import Command, Outcome, Round, Skip
from tests.control_topic import outcome
from tests.golden.printed import compare, printed, titled
from tests.telemetry_lines import bundle, intent
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven

_FILE = Path(__file__).with_name("explain.txt")
NOW = ("--set", "executor.state=/nowhere")


class Job:
    """The folder of a job that has held five rounds; the first moves three bundles off hot:1."""

    def __init__(self, folder: Path, lines: Iterable[bytes] | None = None) -> None:
        self.folder, log = folder, list(lines or uneven(rounds=5))
        folder.mkdir(parents=True)
        replayed = recorded(folder, log, "telemetry.jsonl")
        rebalancer("replay", replayed, "--out", folder, *EAGER_WORDS)
        replayed.rename(folder / "log")

    @property
    def commands(self) -> list[Command]:
        return list(map(decode_command, self.read("commands")))

    @property
    def rounds(self) -> list[Round]:
        return list(map(decode_round, self.read("rounds")))

    def read(self, kind: str) -> list[bytes]:
        return (self.folder / f"{kind}.jsonl").read_bytes().splitlines()

    def write(self, kind: str, lines: Iterable[bytes]) -> None:
        """Replaces the records of a kind."""
        recorded(self.folder, list(lines), f"{kind}.jsonl")

    def answered(self, *outcomes: Outcome) -> None:
        self.write("outcomes", map(encode_outcome, outcomes))

    def says(self, *words: object) -> str:
        answer = rebalancer("explain", "--from", self.folder, *NOW, *words)
        return printed(" ".join(map(str, ("explain", *words))), answer, self.folder.parent)


def subjects(job: Job) -> Iterator[str]:
    """Each kind of subject by each of its names; a number that is a round before it is an id."""
    first = job.commands[0]
    span = first.bundle.rpartition("/")[2]
    yield from map(job.says, (first.id, first.id[:8], "latest", 1, 5))
    yield from map(job.says, ("hot:1", "idle:1", first.bundle, span))
    yield from (job.says(name, "--last", 1) for name in ("HOT", "HOT:1", "http://hot:1/"))
    for form in ("persistent://t/ns/topic-{}", "t/ns/topic-{}", "t/ns/t-partition-{}"):
        topics = (form.format(number) for number in range(100_000))
        yield job.says(next(one for one in topics if holds(first.bundle, one)))


def holds(name: str, topic: str) -> bool:
    parsed = parse_bundle(name)
    whole = topic if "://" in topic else f"persistent://{topic}"
    return parsed is not None and topic_hash(whole) in parsed[1]


def not_there(job: Job) -> Iterator[str]:
    words = ["zzz", "77", "9" * 5_000, "hot:2", "latest:1", "0x01_0x02", bundle(9)]
    words += ["t/ns/0x00000000_0x00000001", "persistent://nobody/knows/this"]
    yield from (job.says(word).replace("9" * 5_000, "9…9") for word in words)
    yield job.says(1, "--epoch", 7)
    yield job.says(1, "--cluster", "z")
    job.write("rounds", [])
    yield job.says("latest")
    job.write("commands", [])
    yield from (job.says("latest"), job.says("7"))


def outcomes(job: Job) -> Iterator[str]:
    """Outcomes in all states; those of another cluster or bundle are none of a command."""
    first, second, third = job.commands
    done = outcome(first, "applied", seconds=9)
    job.answered(
        outcome(first, "dry-run", "dry-run: would transfer"),
        outcome(first, "failed", "cluster-silent: no answer", 5),
        done,
        done,
        outcome(first, "already-done", "replayed: it was carried out before", 20),
        outcome(second, "refused", "paused: this executor is paused"),
        replace(outcome(third, "applied"), cluster="other"),
        replace(outcome(third, "applied"), bundle="t/other/0x00000000_0x10000000"),
    )
    rest = Skip("bundle", (second.bundle,), "cooling-down", "its cool-down is not over", "hot:1")
    rounds = job.rounds
    rounds[1] = replace(rounds[1], skips=(*rounds[1].skips, rest))
    job.write("rounds", map(encode_round, rounds))
    words = (first.id, second.id, third.id, 1, second.bundle, "hot:1", "idle:1")
    yield from map(job.says, words)
    job.answered(outcome(first, "already-done", seconds=100_000))
    yield job.says(third.id)


def epochs(job: Job) -> Iterator[str]:
    """A second epoch with fewer rounds, and one of another cluster that has commands only."""
    moved, old = job.commands, job.rounds
    again = [replace(one, epoch=2, commands=(), ts=one.ts + 3_600_000) for one in old[:3]]
    job.write("rounds", map(encode_round, [*reversed(old), *reversed(again)]))
    for words in ((2,), (2, "--epoch", 1), ("latest",), (5,), ("hot:1", "--last", 3)):
        yield job.says(*words)
    yield job.says(moved[0].bundle, "--epoch", 2)
    ids = [replace(one, id=f"1234{number}", epoch=2) for number, one in enumerate(moved)]
    other = replace(old[2], cluster="other", commands=())
    numbered = replace(old[0], round=1234, commands=())
    job.write("rounds", map(encode_round, [*old, numbered, other]))
    job.write("commands", map(encode_command, [*moved, *ids]))
    yield from map(job.says, ("1234", "12340", "latest"))
    yield job.says("1234", "--epoch", 2)


def ambiguous(job: Job) -> Iterator[str]:
    """The range of a bundle in two namespaces, and a host with two brokers."""
    first, *others = job.commands
    other = replace(first, id="f" * 32, bundle=first.bundle.replace("t/ns/", "t/other/"))
    hosts = [replace(one, brokers=("host:1", "host:2")) for one in job.rounds]
    job.write("commands", map(encode_command, [first, other, *others]))
    job.write("rounds", map(encode_round, hosts))
    yield from map(job.says, (first.bundle.rpartition("/")[2], "host"))


def damaged(job: Job) -> Iterator[str]:
    """A torn line hides nothing; a file of other records is named."""
    commands, rounds = job.read("commands"), job.read("rounds")
    job.write("commands", [commands[0][:100], *commands])
    job.write("rounds", [rounds[0][:100], *rounds])
    yield job.says(1)
    job.write("rounds", [b"these are", b"no records"])
    yield job.says(1)
    job.write("rounds", commands)
    yield job.says(1)


def unnamed_bundle(job: Job) -> Iterator[str]:
    """A bundle that no round names is explained by the broker that listed it last."""
    (job.folder / "log").rename(job.folder / "telemetry.jsonl")
    yield from map(job.says, (bundle(9), bundle(9).rpartition("/")[2]))


def executor_limits(job: Job) -> Iterator[str]:
    moved = job.commands[0].bundle
    (job.folder / "pause").touch()
    yield job.says(moved, "--set", f"executor.deny={moved.rpartition('/')[0]}")
    yield job.says(moved, "--set", f"executor.state={job.folder}")
    yield job.says(moved, "--set", "executor.actions=transfer", "--set", "executor.windows=")


def drained(job: Job) -> Iterator[str]:
    """Who drains a broker, how far it is, and where each bundle goes."""
    yield from map(job.says, ("hot:1", 2))


def two_clusters(job: Job) -> Iterator[str]:
    yield job.says(1)
    yield job.says(1, "--cluster", "b")


def draining() -> list[bytes]:
    lines = uneven(rounds=5)
    return [*lines[:3], intent(61, broker="hot:1"), *lines[3:]]


STORIES: dict[Callable[[Job], Iterator[str]], list[bytes] | None] = {
    subjects: None,
    not_there: None,
    outcomes: None,
    epochs: None,
    ambiguous: None,
    damaged: None,
    unnamed_bundle: None,
    executor_limits: None,
    drained: draining(),
    two_clusters: [*uneven("a"), *uneven("b")],
}


@pytest.mark.heavy
def test_explain_prints_what_the_file_says(tmp_path: Path, rewrite: bool) -> None:
    parts: list[str] = []
    for story, lines in STORIES.items():
        parts += [titled(story), *story(Job(tmp_path / story.__name__, lines))]
    compare(_FILE, parts, rewrite)
