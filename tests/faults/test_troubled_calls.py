"""An executor at work while brokers answer its calls with errors, or not at all: unloads stop, each
command says why, moves go on afterwards, and nothing is half done.
"""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.pulsar_fake.model import Answer, Cluster, Request
from tests.pulsar_fake.server import FakePulsar, Fault
from tests.unit.executor_lives import BUNDLES
from tools.processes.real_executor import TOKEN, RealExecutor
from tools.traffic.traveller import Traveller

pytestmark = [pytest.mark.servers, pytest.mark.faults]
_GATE_MS = 1_000
#: From the gate's last answer to the call: what the journal and a busy machine take.
_BUSY_S = 1.5
_TROUBLE_S = 6.0
#: Of unloads whose gate was answered by chance, although half of all calls are not.
_BY_CHANCE = 2


@dataclass
class Network:
    """What is wrong with calls, and when an unload was asked for."""

    pulsar: FakePulsar
    answered: float = 1.0
    fails: str = ""
    unloads: list[float] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(3))

    def __call__(self, request: Request) -> Fault | None:
        if request.method == "PUT":
            self.unloads.append(time.monotonic())
        if self.fails == "all" or (self.fails == "unloads" and request.method == "PUT"):
            return Fault(instead=Answer(500))
        return None if self.chance.random() < self.answered else Fault(delay_s=60)

    def late(self, began: float) -> list[float]:
        """Unloads that were asked for later than the gate allows; seconds since it began."""
        latest = began + _GATE_MS / 1000 + _BUSY_S
        return [at - began for at in self.unloads if at > latest]


def test_unloads_stop_and_go_on_again(tmp_path: Path) -> None:
    with (
        FakePulsar(Cluster(token=TOKEN)) as pulsar,
        RealExecutor(
            tmp_path,
            pulsar,
            pulsar__deadline_ms=1_000,
            executor__gate_ms=_GATE_MS,
            executor__breaker_pause_ms=2_000,
            executor__measure_ms=0,
        ) as executor,
    ):
        pulsar.faults = network = Network(pulsar)
        pulsar.cluster.owners.update(dict.fromkeys(BUNDLES, pulsar.cluster.brokers[0]))
        owners = dict.fromkeys(BUNDLES, pulsar.cluster.brokers[0])
        traveller = Traveller(pulsar.cluster.brokers, executor, owners)
        executor.start("--apply")
        _moves_again(traveller)

        network.fails = "unloads"
        traveller.go_on_until(
            lambda: traveller.summary().get("refused breaker-open", 0) > 0, "no breaker opens"
        )
        network.fails = "all"
        began = time.monotonic()
        traveller.go_on_for(_TROUBLE_S)
        assert network.late(began) == []
        network.fails = ""
        _moves_again(traveller)
        assert "refused gate-leader" in traveller.summary()

        network.answered = 0.5
        began = time.monotonic()
        traveller.go_on_for(_TROUBLE_S)
        assert len(network.late(began)) <= _BY_CHANCE
        network.answered = 1.0
        _moves_again(traveller)
        print(traveller.end())


def _moves_again(traveller: Traveller) -> None:
    """The breaker, if it was open, has closed: two moves and more."""
    moved = traveller.applied()
    traveller.go_on_until(lambda: traveller.applied() >= moved + 4, "nothing moves")
