"""Balances a real Pulsar cluster that lives as long as it, with live producers and consumers:
python -m tools.pulsar_demo.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from pulsar_rebalancer.cli import exit_codes
from pulsar_rebalancer.lab.demo.run import stoppable
from tools.processes.loop import GOAL, Loop, on_pulsar
from tools.servers.pulsar_processes import pulsar_processes
from tools.traffic.skewed_users import Users, skewed_users
from tools.traffic.traffic_log import TrafficLog, pauses

#: Number of rounds below the limit that ends the demo, and maximum number of all rounds.
_QUIET_ROUNDS, _MOST_ROUNDS = 3, 40
_BAR_WIDTH = 24


class Screen:
    """Lines as they come; on a terminal, the brokers' traffic then and now below them."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._first: Mapping[str, float] = {}
        self._now: Mapping[str, float] = {}
        self._spinner = Spinner("dots")
        self.live = Live(
            console=self.console, get_renderable=self._picture, refresh_per_second=8, transient=True
        )

    def say(self, text: str, style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=not self.console.is_terminal)

    def wait(self, text: str) -> None:
        """What is being waited for; off a terminal a line of its own."""
        self._spinner.update(text=Text(text, style="dim"))
        if not self.console.is_terminal:
            self.say(text)

    def show(self, load: Mapping[str, float]) -> None:
        """What producers send to each broker's bundles, msg/s."""
        self._first = self._first or load
        self._now = load

    def brokers(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for title in ("broker", "msg/s at the start", "msg/s now"):
            table.add_column(title, no_wrap=True)
        most = max(self._first.values(), default=1.0)
        for broker in sorted(self._now):
            table.add_row(
                broker, _bar(self._first.get(broker, 0.0), most), _bar(self._now[broker], most)
            )
        return table

    def _picture(self) -> Group:
        return Group("", self.brokers(), self._spinner) if self._first else Group(self._spinner)


@contextmanager
def running(folder: Path, screen: Screen) -> Iterator[tuple[Loop, Users]]:
    """Cluster, clients and loop; all of it ends with the context."""
    (folder / "pulsar").mkdir()
    with ExitStack() as stack:
        screen.wait("Starting ZooKeeper, a bookie and four brokers, each a process of its own …")
        cluster = stack.enter_context(pulsar_processes(folder / "pulsar"))
        screen.wait("Starting the Spark job, 64 producers and 64 consumers …")
        loop = stack.enter_context(
            on_pulsar(folder / "loop", cluster.cluster, cluster.cluster.settings(folder))
        )
        users = stack.enter_context(skewed_users(cluster.cluster, folder, "shop/orders"))
        loop.begin()
        yield loop, users


def balance(loop: Loop, users: Users, screen: Screen) -> None:
    """Prints each round, until enough of them have found the cluster even."""
    seen = quiet = 0
    while quiet < _QUIET_ROUNDS and seen < _MOST_ROUNDS:
        known = seen
        screen.wait(f"Waiting for round {known + 1} …")
        loop.wait_until(lambda known=known: loop.count("rounds") > known, "the next round")  # type: ignore[misc]
        screen.show(users.load())
        rounds, spread = loop.rounds(), users.spread()
        for one in rounds[seen:]:
            moves = f"{len(one.commands)} bundles to move" if one.commands else "nothing to move"
            screen.say(
                f"round {one.round}: busiest broker {spread:.1f} times the idlest one's "
                f"throughput; {moves}"
            )
            quiet = quiet + 1 if spread < GOAL and not one.commands else 0
        seen = len(rounds)


def sentence(first: float, last: float, loop: Loop, users: Users, traffic: TrafficLog) -> str:
    """What happened."""
    outcomes = loop.outcomes()
    moved = sum(one.status == "applied" for one in outcomes)
    lost = sum(len(numbers) for numbers in traffic.lost.values())
    verdict = (
        f"Balanced, below the limit of {GOAL:g}"
        if last < GOAL
        else f"Not balanced, the limit is {GOAL:g}"
    )
    return (
        f"{verdict}: the busiest broker's message throughput went from {first:.1f} to "
        f"{last:.1f} times the idlest one's; {moved} of "
        f"{len(users.rates)} bundles were moved in {len(loop.rounds())} rounds; of "
        f"{traffic.acknowledged:,} acknowledged messages "
        f"{lost or 'none'} got lost; per move: {pauses(outcomes, traffic, users.topics)}."
    )


def main() -> int:
    screen = Screen()
    screen.say(
        "cluster   real: Pulsar 4.2 with the modular load manager and its own shedding off; 4 "
        "brokers, 64 bundles, 300 messages of 1 KiB/s"
    )
    screen.say(
        "loop      rebalancer collect → Pulsar topic → rebalancer run → Pulsar topic → "
        "rebalancer execute --apply → brokers"
    )
    screen.say(
        f"goal      busiest broker below {GOAL:g} times the idlest one's throughput "
        "(UniformLoadShedder)"
    )
    try:
        with stoppable(), tempfile.TemporaryDirectory(prefix="rebalancer-pulsar-") as name:
            good, verdict = _run(Path(name), screen)
    except KeyboardInterrupt:
        screen.say("Stopped; nothing is left running.")
        return exit_codes.INTERRUPTED
    screen.console.print(screen.brokers())
    screen.say(verdict, "bold green" if good else "bold red")
    return exit_codes.OK if good else exit_codes.IMBALANCED


def _run(folder: Path, screen: Screen) -> tuple[bool, str]:
    """Whether all is well in the end, and the sentence."""
    with screen.live, running(folder, screen) as (loop, users):
        screen.show(users.load())
        first = users.spread()
        balance(loop, users, screen)
        last = users.spread()
        screen.wait("Stopping …")
        loop.stop("collect", "run", "execute")
        traffic = users.end()
        return last < GOAL and not traffic.lost, sentence(first, last, loop, users, traffic)


def _bar(value: float, most: float) -> Text:
    filled = min(_BAR_WIDTH, round(value / most * _BAR_WIDTH))
    return (
        Text("█" * filled, style="green")
        + Text("░" * (_BAR_WIDTH - filled), style="dim")
        + Text(f" {value:5.0f}")
    )


if __name__ == "__main__":
    sys.exit(main())
