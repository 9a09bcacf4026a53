"""All processes of a running installation, killed with −9 one after the other, again and again: the
job, a Python worker of Spark, the executor, the collector, and the Kafka broker of all topics.

    python -m tools.kills.kill_everything --kills 200 --seed 7

The collector reads the load of a fake Pulsar cluster, the job decides, the executor moves bundles
on the fake cluster, and the next reports show it. What was killed starts again at once, as an
operating system would start it; a kill may come while another process still starts.

At the end, each record counted once: commands and rounds must be what the plain loop makes of the
telemetry that was published, every command must have exactly one verdict (one that the job has
published again is answered with `replayed`), and no bundle may have been released more often than
commands were carried out. Exit code 0: so it is; 1: it is not.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pulsar_rebalancer.settings.merge_sources import load
from sinks.wire.record_decoding import decode_command, decode_outcome
from strategies.cluster.model import Command, Outcome, OutcomeStatus
from strategies.fold.engine import EngineSettings
from tests.control_topic import TOPICS, Control
from tests.pulsar_fake.model import Applied, Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.replayed import replayed
from tools.kills.compared_topics import Comparison, compare
from tools.kills.installation import VICTIMS, Installation, Kill, Victim
from tools.kills.kill_options import say, verdict
from tools.kills.wavering import WaveringLoad
from tools.processes.real_collector import real_collector
from tools.processes.real_executor import TOKEN, RealExecutor
from tools.processes.real_job import EAGER, RealJob
from tools.processes.set_words import set_words
from tools.servers.kafka_broker import kafka_broker
from tools.servers.kafka_topics import values

Say = Callable[[str], None]
_BUNDLES, _PASS_MS = 12, 1_000
#: Few enough for a job that starts again to catch up soon: commands of old records expire.
_RECORDS_PER_BATCH = 200
#: Rounds follow each other so quickly that each life of a process sees some.
_QUICK = (
    *EAGER,
    "shedding.strategy=threshold",
    "round.interval_ms=2000",
    "round.lateness_ms=2000",
    "round.cool_down_ms=4000",
    "round.command_ttl_ms=60000",
)
#: Verdict on a command → the answer when it comes again.
_REPEATED: Mapping[OutcomeStatus, OutcomeStatus] = {
    "applied": "already-done",
    "already-done": "already-done",
    "expired": "expired",
    "failed": "refused",
    "refused": "refused",
}
#: A kill at any time comes within the first, one at a moment that matters within the second after
#: it; the last is the longest pause between two kills.
_ANY_TIME_S, _AFTER_S, _PAUSE_S = 3.0, 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Result:
    """`kills`, `sharp`: victim → number of kills, and of those at a moment that matters; `ended`:
    process → how often it ended by itself; `statuses`: of the outcomes; `wrong`: about outcomes and
    the cluster.
    """

    kills: Mapping[str, int]
    sharp: Mapping[str, int]
    ended: Mapping[str, int]
    telemetry: int
    statuses: Mapping[str, int]
    comparisons: tuple[Comparison, ...]
    wrong: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        return [fault for one in self.comparisons for fault in one.faults] + [*self.wrong]


def plan(kills: int, seed: int) -> list[Kill]:
    """The same kills for the same seed, all victims equally often."""
    rng = random.Random(seed)
    victims: list[Victim] = []
    while len(victims) < kills:
        victims += rng.sample(VICTIMS, len(VICTIMS))
    return [_kill(victim, rng) for victim in victims[:kills]]


def _kill(victim: Victim, rng: random.Random) -> Kill:
    sharp = rng.random() < 2 / 3
    within_s = _AFTER_S if sharp else _ANY_TIME_S
    return Kill(victim, sharp, rng.uniform(0, within_s), early=rng.random() < 1 / 2)


def run(folder: Path, kills: Sequence[Kill], seed: int, say: Say = lambda _: None) -> Result:
    """Kills all of them in turn, lets the rest be worked off, and compares."""
    rng = random.Random(seed)
    with _installed(folder, rng) as whole:
        whole.start()
        whole.rest(_PAUSE_S)
        for number, kill in enumerate(kills, 1):
            whole.kill(kill)
            say(f"kill {number}: {kill.victim}{', sharp' if kill.sharp else ''}")
            whole.rest(rng.uniform(0, _PAUSE_S))
        whole.stop()
        whole.job.drain(*whole.job_words, seconds=900)
        control = whole.executor.control
        # What the executor does from here on is part of no round.
        telemetry = values(control.uri("telemetry"))
        code = whole.executor.finish("--apply")
        reference = replayed(telemetry, _engine())
        published = {kind: values(control.uri(kind)) for kind in ("commands", "rounds", "outcomes")}
        compared = tuple(
            compare(kind, published[kind], reference[kind]) for kind in ("commands", "rounds")
        )
        wrong = wrong_outcomes(
            [decode_command(value) for value in published["commands"]],
            published["outcomes"],
            whole.load.pulsar.cluster.applied,
        )
        if code:
            wrong.append(f"the last executor ended with {code}: {whole.executor.last_words()}")
        return Result(
            Counter(kill.victim for kill in kills),
            whole.sharp,
            whole.ended,
            len(telemetry),
            Counter(decode_outcome(value).status for value in {*published["outcomes"]}),
            compared,
            tuple(wrong),
        )


@contextmanager
def _installed(folder: Path, rng: random.Random) -> Iterator[Installation]:
    with ExitStack() as stack:
        (folder / "broker").mkdir(parents=True)
        broker = stack.enter_context(kafka_broker(folder / "broker"))
        pulsar = stack.enter_context(FakePulsar(Cluster(token=TOKEN)))
        pulsar.faults = wavering = WaveringLoad.of(pulsar, _BUNDLES, rng.randrange(2**32))
        uris = {name: broker.topic(f"all-{name}") for name in TOPICS}
        control = Control(folder / "control", uris)
        # Bytes of the commands are compared with those of the plain loop, which signs nothing.
        executor = RealExecutor(folder / "executor", pulsar, control, signing__key_file="")
        collector = real_collector(folder / "collector", pulsar, control, _PASS_MS)
        job = RealJob(folder / "job", max_records_per_batch=_RECORDS_PER_BATCH)
        yield Installation(
            broker,
            wavering,
            stack.enter_context(job),
            stack.enter_context(executor),
            stack.enter_context(collector),
            _job_words(uris),
            rng,
        )


def _job_words(uris: Mapping[str, str]) -> list[str]:
    given = dict(one.split("=", 1) for one in _QUICK)
    topics = {f"topics.{name}": uri for name, uri in uris.items()}
    return set_words({**given, **topics})


def _engine() -> EngineSettings:
    return load(None, {}, _QUICK).engine


def wrong_outcomes(
    commands: Sequence[Command], outcomes: Sequence[bytes], applied: Sequence[Applied]
) -> list[str]:
    """Commands without a verdict or with several, answers to repetitions that are not there or say
    something else, outcomes of no command, and bundles that were released more often than commands
    were carried out. `commands`, `outcomes`: as published; `applied`: what happened to the bundles
    of the cluster.

    A job that was killed publishes a command again, at another position: this record is answered
    as well, by the verdict and with the code `replayed` (decision 0140). The same outcome published
    twice is one outcome.
    """
    published = Counter(one.id for one in commands)
    found: dict[str, set[bytes]] = {id_: set() for id_ in published}
    wrong = []
    for value in outcomes:
        id_ = decode_outcome(value).command_id
        if id_ in found:
            found[id_].add(value)
        else:
            wrong.append(f"an outcome for {id_}, which no command has caused")
    for id_, values_ in found.items():
        wrong += _wrong_answers(id_, [*map(decode_outcome, sorted(values_))], published[id_])
    bundles = {one.id: one.bundle for one in commands}
    return wrong + _wrong_releases(bundles, found, applied)


def _wrong_releases(
    bundles: Mapping[str, str], outcomes: Mapping[str, set[bytes]], applied: Sequence[Applied]
) -> list[str]:
    """`bundles`, `outcomes`: by command. An executor that expires or refuses a command has called
    nothing.
    """
    tried = Counter(
        bundles[id_]
        for id_, values_ in outcomes.items()
        if any(decode_outcome(value).status in ("applied", "failed") for value in values_)
    )
    return [
        f"{name} was released {count} times, by {tried[name]} commands"
        for name, count in Counter(done.bundle for done in applied).items()
        if count > tried[name]
    ]


def _wrong_answers(id_: str, outcomes: Sequence[Outcome], published: int) -> list[str]:
    """Of one command. `published`: how often it is on its topic."""
    answers = [one for one in outcomes if (one.reason or "").startswith("replayed:")]
    verdicts = [one for one in outcomes if one not in answers]
    if len(verdicts) != 1:
        return [f"{id_} has {len(verdicts)} verdicts"]
    if len(answers) >= published:
        return [f"{id_} has {len(answers)} repeated verdicts, and was published {published} times"]
    wanted = _REPEATED[verdicts[0].status]
    return [
        f"{id_} was {verdicts[0].status}, and is {one.status} when it comes again"
        for one in answers
        if one.status != wanted
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.kills.kill_everything", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=7, help="decides the moments (7)")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-everything-") as folder:
        found = run(Path(folder), plan(given.kills, given.seed), given.seed, say)
    for fault in found.wrong:
        print(f"fault: {fault}")
    print(f"outcomes: {dict(sorted(found.statuses.items()))}")
    kills = ", ".join(
        f"{count} of the {name}"
        + (f" ({found.sharp[name]} in its work)" if found.sharp.get(name) else "")
        for name, count in sorted(found.kills.items())
    )
    ended = ", ".join(f"{name} {count} times" for name, count in sorted(found.ended.items()))
    code = verdict(
        found.comparisons,
        f"{given.kills} kills in {time.monotonic() - began:.0f} s: {kills}; ended by itself: "
        f"{ended or 'none'}; {found.telemetry} records of telemetry: the outcome",
        "the plain replay",
    )
    return 1 if found.wrong else code


if __name__ == "__main__":
    sys.exit(main())
