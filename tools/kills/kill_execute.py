"""Kills `rebalancer execute --apply` with −9 between applying and committing, again and again:
python -m tools.kills.kill_execute.

Every command must have been carried out on the fake cluster exactly once, and have one outcome
(repeated publications are the same bytes).
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sinks.wire.record_decoding import decode_outcome
from strategies.cluster.model import Command
from tests.control_topic import TOPICS, Control, command
from tests.pulsar_fake.model import Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tools.processes.real_executor import TOKEN, RealExecutor

#: While the owner is being called, before or after it has released the bundle, or some time after
#: it has answered.
Moment = Literal["call lost", "call done", "later"]
_COMMANDS_PER_LIFE = 3
_LATEST_S = 0.12


@dataclass(frozen=True, slots=True)
class Kill:
    """At the `at`-th release of a life (from 0), at which moment; `delay_s` after the answer for
    `later`.
    """

    moment: Moment
    at: int
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of all commands; everything that is wrong is in `faults`."""

    commands: int
    repeated: int
    statuses: Counter[str]
    faults: list[str]


def plan(kills: int, seed: int) -> list[Kill]:
    """The same kills for the same seed; the first three are of every moment."""
    rng, moments = random.Random(seed), ("call lost", "call done", "later")
    chosen: list[Moment] = [*moments[:kills], *(rng.choice(moments) for _ in range(kills - 3))]  # type: ignore[list-item]
    return [
        Kill(moment, rng.randrange(_COMMANDS_PER_LIFE), rng.uniform(0, _LATEST_S))
        for moment in chosen
    ]


def run(
    folder: Path,
    kills: Sequence[Kill],
    manager: Literal["modular", "extensible"] = "modular",
    control: Control | None = None,
) -> Result:
    """One life per kill, and a last one that works off what is left. `control`: the topics, below
    the folder if not given.
    """
    count = _COMMANDS_PER_LIFE * len(kills)
    with (
        FakePulsar(Cluster(manager=manager, token=TOKEN)) as pulsar,
        RealExecutor(folder, pulsar, control) as executor,
    ):
        brokers = pulsar.cluster.brokers
        bundles = [f"t/ns/0x{number:08x}_0x{number + 1:08x}" for number in range(count)]
        pulsar.cluster.owners.update(
            {bundle: brokers[number % 3] for number, bundle in enumerate(bundles)}
        )
        commands = [
            command(bundle, brokers[number % 3], brokers[(number + 1) % 3])
            for number, bundle in enumerate(bundles)
        ]
        for life, kill in enumerate(kills):
            executor.control.send(
                *commands[life * _COMMANDS_PER_LIFE : (life + 1) * _COMMANDS_PER_LIFE],
                key=executor.key,
            )
            pulsar.faults = _Killer(executor, pulsar, kill)
            executor.start("--apply")
            executor.wait_until(lambda: executor.dead)
            executor.kill()
        pulsar.faults = lambda _: None
        code = executor.finish("--apply")
        faults = faults_of(commands, pulsar, executor) + (
            [f"the last life ended with {code}: {executor.last_words()}"] if code else []
        )
        distinct = [decode_outcome(value) for value in set(executor.control.read("outcomes"))]
        repeated = len(executor.control.read("outcomes")) - len(distinct)
    return Result(count, repeated, Counter(outcome.status for outcome in distinct), faults)


class _Killer:
    """Hears every request; kills the executor at the moment of the plan."""

    def __init__(self, executor: RealExecutor, pulsar: FakePulsar, kill: Kill) -> None:
        self._executor = executor
        self._pulsar = pulsar
        self._kill = kill
        self._releases = 0

    def __call__(self, request: Request) -> Fault | None:
        if request.method != "PUT" or not self._pulsar.cluster.releases(request):
            return None
        number, self._releases = self._releases, self._releases + 1
        if number != self._kill.at:
            return None
        self._executor.look()
        if self._kill.moment == "later":
            threading.Timer(self._kill.delay_s, self._executor.kill_now).start()
            return None
        self._executor.kill_now()
        return Fault(drop=True) if self._kill.moment == "call lost" else Fault(drop_after=True)


def faults_of(commands: Sequence[Command], pulsar: FakePulsar, executor: RealExecutor) -> list[str]:
    """What is wrong: applied twice or not at all, answered differently or not at all, at another
    place, secret and yet shown.
    """
    applied = Counter(done.bundle for done in pulsar.cluster.applied)
    outcomes: dict[str, set[bytes]] = {}
    for value in executor.control.read("outcomes"):
        outcomes.setdefault(decode_outcome(value).command_id, set()).add(value)
    faults = []
    for one in commands:
        values = outcomes.pop(one.id, set())
        if applied[one.bundle] != 1:
            faults.append(f"{one.bundle} was released {applied[one.bundle]} times")
        if len(values) != 1:
            faults.append(f"{one.id} has {len(values)} different outcomes")
        if pulsar.cluster.owners[one.bundle] != one.destination:
            faults.append(
                f"{one.bundle} is at {pulsar.cluster.owners[one.bundle]}, not at {one.destination}"
            )
    faults += [f"an outcome for {id_}, which no command has caused" for id_ in outcomes]
    return faults + executor.leaks()


@contextmanager
def _on_kafka(folder: Path) -> Iterator[Control]:
    from tools.servers.kafka_broker import kafka_broker

    (folder / "kafka").mkdir()
    with kafka_broker(folder / "kafka") as broker:
        yield Control(folder, {name: broker.topic(name, partitions=2) for name in TOPICS})


def main() -> int:
    """Command line; exit code 1 if anything was applied twice, lost, or shown that is secret."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--manager", choices=("modular", "extensible"), default="modular")
    parser.add_argument(
        "--kafka",
        action="store_true",
        help="with the topics on a real Kafka broker, started for this",
    )
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-execute-") as folder, ExitStack() as stack:
        kills = plan(given.kills, given.seed)
        control = stack.enter_context(_on_kafka(Path(folder))) if given.kafka else None
        result = run(Path(folder) / "executor", kills, given.manager, control)
    for fault in result.faults:
        print(f"fault: {fault}")
    moments = ", ".join(
        f"{number} {moment}"
        for moment, number in sorted(Counter(kill.moment for kill in kills).items())
    )
    verdict = (
        "something was applied twice or lost"
        if result.faults
        else "none was applied twice, none was lost"
    )
    print(
        f"{len(kills)} kills ({moments}) on the {given.manager} manager in "
        f"{time.monotonic() - began:.0f} s, {result.commands} commands: "
        f"{dict(result.statuses)}, {result.repeated} outcomes published again; {verdict}"
    )
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
