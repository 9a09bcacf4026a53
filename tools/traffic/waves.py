"""Waves of look-ups on brokers that are processes of their own: clients of many bundles, and an
operator who unloads all bundles at once.

python -m tools.traffic.waves FOLDER [--way old] starts a cluster and prints what its brokers
answer; --help names the rest.
"""

import argparse
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Literal

import httpx

from sinks.pulsar_api.admin import PulsarAdmin
from strategies.cluster.model import Command, Outcome
from strategies.errors import AdminError
from tests.control_topic import command
from tools.processes.real_executor import RealExecutor
from tools.servers.pulsar_cluster import CLUSTER, Manager, PulsarCluster
from tools.servers.pulsar_processes import pulsar_processes
from tools.waiting import eventually

if TYPE_CHECKING:
    import pulsar

BUNDLES, PRODUCERS, POLLERS, EVERY_S = 64, 96, 4, 4.0
_ANSWER_S = 60.0
_OUTCOMES_S = 300.0
_AT_A_TIME, _AT_ONCE = 32, 16
_TRIES = 5
_CONNECT_S = 600.0
#: A busy machine must not end a session, which would count as a broker that does not answer.
PATIENT = {"metadataStoreSessionTimeoutMillis": "60000"}

#: Asks a broker something about a bundle; names the answer.
Poll = Callable[[str, str], str]


@dataclass
class Waves:
    """`waves`: how often all bundles were unloaded; `answers`: what pollers were answered;
    `took_s`: how long that took.
    """

    cluster: PulsarCluster
    bundles: Sequence[str]
    topics: Sequence[str]
    ended: threading.Event = field(default_factory=threading.Event)
    waves: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)

    def silent(self) -> list[str]:
        """Brokers that answer no look-up, or do not read metadata, however often they are asked.
        Each look-up is of another topic.
        """
        return [
            broker
            for broker in self.cluster.brokers
            if not any(self._answers(broker, number) for number in range(_TRIES))
        ]

    def _answers(self, broker: str, number: int) -> bool:
        topic = self.topics[(self.waves + number) % len(self.topics)].replace("://", "/")
        with httpx.Client(timeout=_ANSWER_S) as client, suppress(httpx.TimeoutException):
            found = client.get(f"http://{broker}/lookup/v2/topic/{topic}")
            tenants = client.get(f"http://{broker}/admin/v2/tenants")
            return found.status_code in (200, 307) and tenants.status_code == 200
        return False

    def figures(self) -> str:
        """One line."""
        took = sorted(self.took_s)
        at = (
            {
                name: took[int(part * (len(took) - 1))]
                for name, part in (("median", 0.5), ("99 %", 0.99), ("longest", 1.0))
            }
            if took
            else {}
        )
        return f"{self.waves} waves; answers {dict(self.answers)}; " + ", ".join(
            f"{name} {1000 * s:.0f} ms" for name, s in at.items()
        )


@contextmanager
def waves(
    cluster: PulsarCluster,
    namespace: str,
    poll: Poll | None,
    *,
    bundles: int = BUNDLES,
    producers: int = PRODUCERS,
    pollers: int = POLLERS,
    every_s: float = EVERY_S,
) -> Iterator[Waves]:
    """Until the context ends: `every_s` seconds after a wave is over the next begins, while
    `pollers` ask about random bundles.
    """
    cluster.namespace(namespace, bundles)
    names = [f"{namespace}/{range_}" for range_ in _ranges(bundles)]
    made = Waves(
        cluster, names, [f"persistent://{namespace}/topic-{number}" for number in range(producers)]
    )
    with closing(cluster.client()) as client:
        connected = _connect(client, made.topics)
        works: list[Callable[[], None]] = [partial(_unload, made, namespace, every_s)]
        if poll is not None:
            works += [partial(_ask, made, poll, Random(seed)) for seed in range(pollers)]
        threads = [threading.Thread(target=work, name="waves", daemon=True) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield made
        finally:
            made.ended.set()
            for thread in threads:
                thread.join(2 * _ANSWER_S)
            del connected  # until here: a producer that is forgotten closes, and looks nothing up


def owner_by_list(broker: str, _: str) -> str:
    """The call that freezes modular brokers. It is here, and nowhere in the product, so that this
    stays true and known.
    """
    try:
        return str(
            _session()
            .get(f"http://{broker}/admin/v2/brokers/{CLUSTER}/{broker}/ownedNamespaces")
            .status_code
        )
    except httpx.HTTPError as error:
        return type(error).__name__


def owner_by(admin: PulsarAdmin) -> Poll:
    """As the product asks."""

    def poll(broker: str, bundle: str) -> str:
        try:
            return "no owner" if admin.owner(bundle, [broker]) is None else "owner"
        except AdminError as error:
            return type(error).__name__

    return poll


def move(made: Waves, admin: PulsarAdmin, executor: RealExecutor, random: Random) -> list[Outcome]:
    """Sends commands that move random bundles from where they are. Their outcomes, or
    AssertionError when one has none in time.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(
            lambda bundle: _transfer(made, admin, bundle, random),
            random.sample(made.bundles, _AT_A_TIME),
        )
        commands = [one for one in found if one is not None]
    executor.control.send(*commands, key=executor.key)
    expected = {one.id for one in commands}

    def outcomes() -> list[Outcome]:
        return [one for one in executor.control.outcomes() if one.command_id in expected]

    eventually(
        lambda: len(outcomes()) == len(expected),
        _OUTCOMES_S,
        f"not every command of {expected} has its outcome",
    )
    return outcomes()


def _transfer(made: Waves, admin: PulsarAdmin, bundle: str, random: Random) -> Command | None:
    with suppress(AdminError):
        source = admin.owner(bundle)
        if source is not None:
            return command(
                bundle,
                source,
                random.choice([broker for broker in made.cluster.brokers if broker != source]),
            )
    return None


def _ranges(bundles: int) -> list[str]:
    bounds = [number * 2**32 // bundles for number in range(bundles)] + [2**32 - 1]
    return [f"0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]


def _connect(client: "pulsar.Client", topics: Sequence[str]) -> "list[pulsar.Producer]":
    """A producer for each topic; again where a busy broker took too long."""
    import pulsar

    def connect(topic: str) -> pulsar.Producer:
        made: list[pulsar.Producer] = []

        def connected() -> bool:
            with suppress(pulsar.PulsarException):
                made.append(client.create_producer(topic))
            return bool(made)

        eventually(connected, _CONNECT_S, f"no producer for {topic}")
        return made[0]

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(connect, topics))


def _unload(made: Waves, namespace: str, every_s: float) -> None:
    with httpx.Client(timeout=_ANSWER_S) as client:
        while not made.ended.wait(every_s):
            asked = made.cluster.brokers[made.waves % len(made.cluster.brokers)]
            with suppress(httpx.HTTPError):
                client.put(f"http://{asked}/admin/v2/namespaces/{namespace}/unload")
            made.waves += 1


def _ask(made: Waves, poll: Poll, random: Random) -> None:
    while not made.ended.wait(0.02):
        began = time.monotonic()
        made.answers[poll(random.choice(made.cluster.brokers), random.choice(made.bundles))] += 1
        made.took_s.append(time.monotonic() - began)


_SESSIONS = threading.local()


def _session() -> httpx.Client:
    if not hasattr(_SESSIONS, "client"):
        _SESSIONS.client = httpx.Client(timeout=_ANSWER_S)
    return _SESSIONS.client  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Plan:
    """What to run, and until when: `seconds` have passed and `moves` were applied by an
    executor.
    """

    manager: Manager = "modular"
    way: Literal["old", "new", "none"] = "new"
    brokers: int = 2
    bundles: int = BUNDLES
    producers: int = PRODUCERS
    pollers: int = POLLERS
    every_s: float = EVERY_S
    seconds: float = 1_800.0
    moves: int = 0


def rehearse(
    plan: Plan, folder: Path, say: Callable[[str], None]
) -> tuple[Counter[str], list[str]]:
    """Runs a plan; outcomes of all commands by sort, and the brokers that are silent in the end.
    Ends early when there are any.
    """
    verdicts, random = Counter[str](), Random(1)
    with ExitStack() as stack:
        cluster = stack.enter_context(
            pulsar_processes(folder / "cluster", plan.manager, brokers=plan.brokers, more=PATIENT)
        ).cluster
        admin = stack.enter_context(closing(PulsarAdmin(cluster.settings(folder))))
        executor = stack.enter_context(
            RealExecutor(
                folder / "executor",
                cluster.settings(folder),
                executor__arrival_timeout_ms=5_000,
                executor__max_concurrent=_AT_ONCE,
            )
        )
        poll = {"old": owner_by_list, "new": owner_by(admin), "none": None}[plan.way]
        sizes = {
            name: getattr(plan, name) for name in ("bundles", "producers", "pollers", "every_s")
        }
        made = stack.enter_context(waves(cluster, "waves/all", poll, **sizes))
        began = time.monotonic()
        reported = began
        if plan.moves:
            executor.start("--apply")
        while time.monotonic() < began + plan.seconds or verdicts["applied"] < plan.moves:
            verdicts.update(
                sort(one) for one in (move(made, admin, executor, random) if plan.moves else ())
            )
            made.ended.wait(0 if plan.moves else 5)
            if time.monotonic() > reported + 60:
                reported = time.monotonic()
                say(
                    f"{(reported - began) / 60:.0f} min: {made.figures()}; commands "
                    f"{dict(verdicts)}; silent {(silent := made.silent())}"
                )
                if silent:
                    break
        say(f"end: {made.figures()}; commands {dict(verdicts)}")
        return verdicts, made.silent()


def sort(outcome: Outcome) -> str:
    """Its status, and the code of its reason."""
    return (
        outcome.status
        if outcome.status == "applied"
        else f"{outcome.status} {(outcome.reason or '').partition(':')[0]}"
    )


def main() -> None:
    """A plan by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for one in fields(Plan):
        choices = {"manager": ["modular", "extensible"], "way": ["old", "new", "none"]}.get(
            one.name
        )
        parser.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=type(one.default),
            default=one.default,
            choices=choices,
        )
    given = vars(parser.parse_args())
    folder = given.pop("folder")
    (folder / "cluster").mkdir(parents=True)
    rehearse(Plan(**given), folder, lambda text: print(time.strftime("%H:%M:%S"), text, flush=True))


if __name__ == "__main__":
    main()
