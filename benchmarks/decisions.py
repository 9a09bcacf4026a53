"""`python -m benchmarks.decisions`: what one decision costs, for every strategy in both modes and
clusters of several sizes.

Timed is what stands between the packed state of the live job and the strategy's answer: the view is
made, the strategy picks, and only the tables that it asks for are unpacked. CPU time; every call
starts from a fresh view. Compare how it grows with how the cluster grows.
"""

import argparse
import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import thread_time
from types import MappingProxyType

from benchmarks.bench_input import CLUSTER, NOW_MS, ROUND, Cluster, Size, cluster
from benchmarks.figures import Sample, sample, say, table
from benchmarks.options import number, options
from strategies.cluster.cluster_state import BrokerState, ClusterState, InMemoryStore
from strategies.cluster.model import ClusterView
from strategies.cluster.strategy_memory import Memory
from strategies.fold.engine import EngineSettings, rules_of
from strategies.round import participating_brokers
from strategies.round.round_input_and_digest import RoundInput
from strategies.settings import Mode, Weights
from strategies.shedding.avg.settings import AvgSettings
from strategies.shedding.contract import Shedder, Shedding
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.transfer.settings import TransferSettings

SIZES = (Size(100, 10_000), Size(1_000, 100_000), Size(5_000, 500_000))
MODES: tuple[Mode, Mode] = ("parity", "fixed")
#: Both strategies would wait for several rounds first; so they act at once.
SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "avg": AvgSettings(high_threshold=35, hit_count_high=1, hit_count_low=1000),
        "transfer": TransferSettings(hit_count=0),
    }
)
_UNTIMED = 2
#: A strategy that compares samples remembers this many rounds in which no broker stood out, and one
#: like the round that is timed.
_REMEMBERED = 19
_COMPARES_SAMPLES = ("steady",)


@dataclass(frozen=True, slots=True)
class DecisionCost:
    """CPU ms per decision, how many bundles it picked and from how many brokers."""

    strategy: str
    mode: Mode
    size: Size
    cpu_ms: Sample
    picked: int
    sources: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures on standard output, what it is doing on standard error."""
    chosen = decision_options("benchmarks.decisions", __doc__ or "").parse_args(arguments)
    costs = [cost for size in chosen.sizes for cost in _all_strategies(size, chosen.calls)]
    print(
        json.dumps({"v": 1, "decisions": [asdict(cost) for cost in costs]}, indent=2)
        if chosen.json
        else growth_table(costs, chosen.sizes)
    )


def built(strategy: str, mode: Mode) -> Shedder:
    """The strategy with the settings that this benchmark uses."""
    settings = SHEDDERS.settings_of(strategy, SETTINGS.get(strategy))
    return SHEDDERS[strategy].build(settings, Weights(), mode)


def measure(given: Cluster, strategy: str, mode: Mode, calls: int) -> tuple[DecisionCost, Shedding]:
    """The cost of `calls` decisions after a few that are not timed, and what was decided."""
    rule = built(strategy, mode)
    memory = memory_of(given, strategy, rule)
    # What there is by now is not garbage of the calls: walking through it takes up to a second.
    gc.freeze()
    timed = [_timed(given, rule, memory) for _ in range(_UNTIMED + calls)]
    decided = timed[-1][1]
    sources = {decision.source for decision in decided.decisions}
    times = sample([cpu_ms for cpu_ms, _ in timed[_UNTIMED:]])
    return DecisionCost(
        strategy, mode, given.size, times, len(decided.decisions), len(sources)
    ), decided


def view_of(
    brokers: Sequence[BrokerState], store: InMemoryStore, mode: Mode = "fixed"
) -> ClusterView:
    """What a round shows to its strategy: every broker's figures, and its table for those who
    look.
    """
    state = ClusterState(round=ROUND - 1)
    given = RoundInput(CLUSTER, state, NOW_MS, "sweep", tuple(brokers), store.get_table)
    return participating_brokers.view_of(given, given.brokers, rules_of(EngineSettings(mode=mode)))


def growth_table(costs: Sequence[DecisionCost], sizes: Sequence[Size]) -> str:
    """One row per strategy and mode: CPU ms at every size, and between two sizes how many times as
    much the larger one takes.
    """
    rows = [_growth_row(list(group), sizes) for group in _by_rule(costs)]
    return table(
        "Decisions, by brokers × bundles in the cluster: CPU ms, median (min–max); in between "
        "how many times the size before",
        rows,
    )


def _all_strategies(size: Size, calls: int) -> Iterator[DecisionCost]:
    say(f"a cluster of {size} is made up")
    given = cluster(size)
    for strategy in SHEDDERS:
        for mode in MODES:
            cost, _ = measure(given, strategy, mode, calls)
            say(f"  {strategy}/{mode}: {cost.cpu_ms} ms")
            yield cost


def memory_of(given: Cluster, strategy: str, rule: Shedder) -> Memory:
    """The memory before the timed round: of a strategy that compares samples, after earlier rounds,
    a minute apart.
    """
    memory = Memory({state.broker: state.memory for state in given.brokers})
    if strategy not in _COMPARES_SAMPLES:
        return memory
    view = view_of(given.brokers, given.store)
    ordinary = view.brokers[-1].figures
    hot = max(broker.figures.cpu.usage for broker in view.brokers[len(view.brokers) // 2 :])
    for back in range(_REMEMBERED + 1, 0, -1):
        now_ms = NOW_MS - back * 60_000
        brokers = tuple(
            replace(
                broker,
                reported_at_ms=now_ms,
                figures=ordinary if back > 1 and broker.figures.cpu.usage > hot else broker.figures,
            )
            for broker in view.brokers
        )
        memory = rule.shed(replace(view, now_ms=now_ms, brokers=brokers), memory).memory
    return memory


def _timed(given: Cluster, rule: Shedder, memory: Memory) -> tuple[float, Shedding]:
    # Garbage of the call before must not be collected on the account of this one.
    gc.collect()
    started = thread_time()
    view = view_of(given.brokers, given.store)
    decided = rule.shed(view, memory)
    return (thread_time() - started) * 1e3, decided


def _by_rule(costs: Sequence[DecisionCost]) -> Iterator[list[DecisionCost]]:
    for rule in dict.fromkeys((cost.strategy, cost.mode) for cost in costs):
        yield [cost for cost in costs if (cost.strategy, cost.mode) == rule]


def _growth_row(costs: Sequence[DecisionCost], sizes: Sequence[Size]) -> dict[str, object]:
    row: dict[str, object] = {"strategy": costs[0].strategy, "mode": costs[0].mode}
    before: DecisionCost | None = None
    for size, cost in zip(sizes, costs, strict=True):
        if before is not None:
            row[f"at {size.bundles / before.size.bundles:g}× the size"] = cost.cpu_ms.over(
                before.cpu_ms
            )
        row[f"{size}"] = cost.cpu_ms
        before = cost
    return {
        **row,
        "picked": " ".join(str(cost.picked) for cost in costs),
        "from brokers": " ".join(str(cost.sources) for cost in costs),
    }


def size_of(text: str) -> Size:
    """`1000x100000` → brokers and bundles."""
    brokers, _, bundles = text.partition("x")
    size = Size(int(brokers), int(bundles))
    if not 2 <= size.brokers <= size.bundles:
        raise ValueError(text)
    return size


def decision_options(module: str, text: str) -> argparse.ArgumentParser:
    """What every benchmark of decisions takes; `text` is its docstring."""
    parser = options(module, text)
    parser.add_argument(
        "--sizes",
        type=size_of,
        nargs="+",
        default=SIZES,
        metavar="BROKERSxBUNDLES",
        help="sizes of the clusters, smallest first (default: 100x10000 1000x100000 5000x500000)",
    )
    number(parser, "--calls", 11, "our decisions that count, after two that do not")
    return parser


if __name__ == "__main__":
    main()
