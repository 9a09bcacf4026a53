"""`python -m benchmarks.rounds`: what reports and rounds cost, in the plain loop and through Spark,
for clusters of several sizes.

Absolute times say little on a shared machine. Compare ratios: every time stands beside that of a
no-op pass-through of the same records through Spark, measured in the same run.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import plain
from benchmarks.figures import Sample, say, table
from benchmarks.fleet import Fleet
from benchmarks.options import number, options
from benchmarks.plain import PlainCost

if TYPE_CHECKING:
    from benchmarks.micro_batches import BatchCost

SIZES = (100, 1_000, 5_000)


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything one run has measured; `batches` is empty without Spark."""

    plain: tuple[PlainCost, ...]
    batches: "tuple[BatchCost, ...]"

    def batch(self, brokers: int, query: str) -> Sample | None:
        return next(
            (one.batch_ms for one in self.batches if (one.brokers, one.query) == (brokers, query)),
            None,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures on standard output, what it is doing on standard error."""
    chosen = _options().parse_args(arguments)
    fleets = [Fleet(brokers, chosen.bundles, chosen.seed) for brokers in chosen.brokers]
    costs = Costs(
        plain=tuple(cost for fleet in fleets for cost in _plain(fleet, chosen.passes)),
        batches=() if chosen.no_spark else tuple(_batches(fleets, chosen.passes)),
    )
    print(
        json.dumps({"v": 1, "bundles": chosen.bundles, **asdict(costs)}, indent=2)
        if chosen.json
        else tables(costs, chosen.bundles)
    )


def tables(costs: Costs, bundles: int) -> str:
    """Two tables for people; ranges are smallest–largest of the passes."""
    parts = [
        table(
            f"Plain loop, {bundles} bundles per broker: CPU time, and elapsed time of a pass; "
            "median (min–max)",
            [_plain_row(cost, costs) for cost in costs.plain],
        ),
        table(
            "Spark, one micro-batch = one report of every broker + sweep = one round: elapsed "
            "time, median (min–max)",
            [_batch_row(cost, costs) for cost in costs.batches],
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _plain_row(cost: PlainCost, costs: Costs) -> dict[str, object]:
    row: dict[str, object] = {
        "brokers": f"{cost.brokers:,}",
        "strategy": cost.strategy,
        "decode µs/report": cost.decode_us,
        "fold µs/report": cost.fold_us,
        "both µs/report": cost.both_us,
        "ms/round": cost.round_ms,
        "elapsed ms/pass": cost.pass_ms,
    }
    if costs.batches:
        row["pass ÷ pass-through"] = _ratio(cost.pass_ms, costs.batch(cost.brokers, "pass-through"))
    return {**row, "commands": cost.commands}


def _batch_row(cost: "BatchCost", costs: Costs) -> dict[str, object]:
    per_report = Sample(
        *(
            value * 1000 / cost.brokers
            for value in (cost.batch_ms.median, cost.batch_ms.low, cost.batch_ms.high)
        )
    )
    return {
        "brokers": f"{cost.brokers:,}",
        "query": cost.query,
        "µs/report": per_report,
        "ms/micro-batch": cost.batch_ms,
        "÷ pass-through": _ratio(cost.batch_ms, costs.batch(cost.brokers, "pass-through")),
        "÷ decoding one": _ratio(
            cost.batch_ms, costs.batch(cost.brokers, "pass-through that decodes")
        ),
        "commands": cost.commands,
    }


def _ratio(cost: Sample, reference: Sample | None) -> str:
    return "–" if reference is None else cost.over(reference)


def _plain(fleet: Fleet, passes: int) -> Iterator[PlainCost]:
    say(f"plain loop, {fleet.brokers:,} brokers")
    return plain.measure(fleet, 2, passes)


def _batches(fleets: Sequence[Fleet], passes: int) -> "Iterator[BatchCost]":
    from benchmarks import micro_batches

    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="rebalancer-bench-")))
        say("Spark starts")
        spark = held.enter_context(micro_batches.session(folder))
        for fleet in fleets:
            say(f"Spark, {fleet.brokers:,} brokers")
            with tempfile.TemporaryDirectory(dir=folder) as topics:
                for cost in micro_batches.measure(
                    spark, fleet, _warm_up(fleet), passes, Path(topics)
                ):
                    say(f"  {cost.query}: {cost.batch_ms} ms")
                    yield cost


def _warm_up(fleet: Fleet) -> int:
    """Micro-batches before the first that counts: Java compiles what runs often, and small ones run
    through less code.
    """
    return max(2, 1_500 // fleet.brokers)


def _options() -> argparse.ArgumentParser:
    parser = options("benchmarks.rounds", __doc__ or "")
    parser.add_argument(
        "--brokers",
        type=int,
        nargs="+",
        default=SIZES,
        metavar="N",
        help="sizes of the clusters (default: 100 1000 5000)",
    )
    number(parser, "--bundles", 100, "bundles per broker")
    number(parser, "--passes", 5, "passes that count, after some that do not")
    number(parser, "--seed", 42, "of the made-up figures")
    parser.add_argument(
        "--no-spark", action="store_true", help="only the plain loop, which needs no Java"
    )
    return parser


if __name__ == "__main__":
    main()
