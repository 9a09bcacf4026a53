"""An executor beside a fake Pulsar with its topics in files, and what a test does with them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from sinks.executor.journal import Journal
from sinks.executor.settings import ExecutorConfig, GuardRules
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.wire.record_decoding import decode_rejected
from sinks.wire.signing_keys import SigningKey
from strategies.bundles import parse_bundle, topic_hash
from strategies.cluster.model import Command, Outcome
from strategies.executor.objections_to_approvals import Approval
from tests.control_topic import Control, command
from tests.pulsar_fake.model import Applied, Request
from tests.pulsar_fake.server import FakePulsar, Fault, is_put
from tests.unit.executor_lives import APPLY, ONE, Death, Life, executor, run
from tests.unit.plan_builders import APPROVALS_KEY, answers, give


def is_lookup(request: Request) -> bool:
    return request.target.startswith("/lookup/")


def asks_owner(request: Request) -> bool:
    return "/non-persistent/" in request.target


def lists_brokers(request: Request) -> bool:
    return request.path == "/admin/v2/brokers/c"


def reads_metadata(request: Request) -> bool:
    """The two calls that make a broker read from the metadata store."""
    return "/tenants/rebalancer-look-" in request.target or "racks-info" in request.target


def topic_names(bundle: str) -> Iterator[str]:
    """Topics that fall into the bundle."""
    parsed = parse_bundle(bundle)
    assert parsed is not None
    for number in count():
        topic = f"persistent://{parsed[0]}/topic-{number}"
        if topic_hash(topic) in parsed[1]:
            yield topic


def guarded(**rules: object) -> ExecutorConfig:
    return replace(APPLY, guard=GuardRules(**rules))  # type: ignore[arg-type]


def told(answer: tuple[str, str]) -> str:
    return " ".join(answer).strip()


@dataclass
class Scene:
    """Three brokers, the first of which owns every bundle, and an executor's topics."""

    pulsar: FakePulsar
    control: Control

    def __post_init__(self) -> None:
        self.cluster = self.pulsar.cluster
        self.owners = self.cluster.owners
        self.one, self.two, self.three = self.cluster.brokers
        self._read = 0

    def move(self, bundle: str = ONE, to: str | None = None, **changes: object) -> Command:
        """A transfer, from the first broker to the second if nothing else is said."""
        source = str(changes.pop("source", self.one))
        return command(bundle, source, to or self.two, **changes)

    def release(self, bundle: str = ONE, **changes: Any) -> Command:
        """An unload without a destination, or another action."""
        return command(bundle, self.one, **changes)

    def send(self, *commands: Command, key: SigningKey | None = None) -> None:
        self.control.send(*commands, key=key)

    def send_move(self, bundle: str = ONE, **changes: object) -> Command:
        self.send(move := self.move(bundle, **changes))  # type: ignore[arg-type]
        return move

    def send_moves(self, *bundles: str) -> list[Command]:
        """Of bundles that the first broker owns."""
        self.owners.update(dict.fromkeys(bundles, self.one))
        self.send(*(moves := [self.move(bundle) for bundle in bundles]))
        return moves

    def see_epoch(self, epoch: int, key: SigningKey | None = None) -> None:
        """A round of a job with this epoch."""
        record = b'{"v":1,"cluster":"c","epoch":%d}' % epoch
        self.control.write("rounds", [record if key is None else key.sign(record)])

    def run(self, config: ExecutorConfig = APPLY, **life: Any) -> list[str]:
        """One life of the executor; the outcomes that came since the last one, in `told`'s form."""
        run(self.pulsar, self.control, config, Life(**life))
        return self.news()

    def news(self) -> list[str]:
        verdicts = self.control.verdicts()[self._read :]
        self._read += len(verdicts)
        return [told(verdict) for verdict in verdicts]

    def run_until_death(self, at: Any, config: ExecutorConfig = APPLY) -> None:
        """One life that ends at this moment of its first command."""
        try:
            self.run(config, dies=at)
        except Death:
            return
        raise AssertionError("the executor lives")

    def pausing(
        self, config: ExecutorConfig = APPLY, at: Callable[[Request], bool] = is_put
    ) -> ExecutorConfig:
        """With a pause file, which is there from the first such request on; other faults stay."""
        brake, others = self.control.folder / "pause", self.pulsar.faults

        def pause(request: Request) -> Fault | None:
            if at(request):
                brake.touch()
            return others(request)

        self.pulsar.faults = pause
        return replace(config, pause_file=brake)

    def work_off(
        self, *sent: Callable[[], object], config: ExecutorConfig = APPLY, **life: Any
    ) -> list[str]:
        """One life over several parts; all its outcomes."""
        with executor(self.pulsar, self.control, config, Life(**life)) as at_work:
            for send in sent:
                send()
                while at_work.step(0):
                    pass
        return self.news()

    def calls(self, wanted: Callable[[Request], bool]) -> int:
        return sum(wanted(request) for request, _ in self.pulsar.calls)

    @property
    def puts(self) -> int:
        """Number of unloads and splits that were asked for."""
        return len(self.pulsar.asked("PUT"))

    @property
    def applied(self) -> list[Applied]:
        return self.cluster.applied

    @property
    def outcomes(self) -> list[Outcome]:
        return self.control.outcomes()

    @property
    def reason(self) -> str:
        """Of the newest outcome."""
        return str(self.outcomes[-1].reason)

    def give(self, *given: Approval, key: SigningKey | None = APPROVALS_KEY) -> list[bytes]:
        return give(self.control, *given, key=key)

    @property
    def answers(self) -> list[str]:
        """To approvals, all so far, in `told`'s form."""
        return [told(answer) for answer in answers(self.control)]

    @property
    def rejected(self) -> list[str]:
        return [decode_rejected(value).code for value in self.control.read("rejected")]

    def journal(self) -> closing[Journal]:
        return closing(Journal(self.control.folder / "state"))

    def client(self, **given: Any) -> closing[PulsarAdmin]:
        return closing(PulsarAdmin(PulsarSettings("c", self.pulsar.admin_urls, **given)))
