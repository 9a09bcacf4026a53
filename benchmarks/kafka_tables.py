"""The figures of one run on Kafka, and their tables with ratios."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.figures import Sample, table

if TYPE_CHECKING:
    from benchmarks.kafka_batches import BatchTimes
    from benchmarks.kafka_live import Latency, RoundCost
    from benchmarks.kafka_memory import Memory, StateSize

#: Names of queries; the second is what the job is compared with.
PASS_THROUGH, DECODING, DROPPING, JOB, TWO_PARTITIONS = (
    "pass-through",
    "pass-through that decodes",
    "stateful operator that decodes and drops",
    "job",
    "job, 2 partitions of state",
)

#: What every query is compared with, as the tables name it.
_REFERENCES = (
    ("pass-through", PASS_THROUGH),
    ("decoding one", DECODING),
    ("dropping one", DROPPING),
)


@dataclass
class Figures:
    """All that a run has measured; `load`: of the machine over the last minute, at its beginning
    and its end.
    """

    bundles: int
    load: list[float] = field(default_factory=list)
    batches: "list[BatchTimes]" = field(default_factory=list)
    latencies: "list[Latency]" = field(default_factory=list)
    rounds: "list[RoundCost]" = field(default_factory=list)
    memory: "list[Memory]" = field(default_factory=list)
    states: "list[StateSize]" = field(default_factory=list)

    def batch_ms(self, query: str, records: int) -> Sample | None:
        """Micro-batches of this size of a query."""
        return next(
            (one.batch_ms for one in self.batches if (one.query, one.records) == (query, records)),
            None,
        )

    @property
    def trickle_ms(self) -> float | None:
        """Median of the smallest micro-batches of the pass-through that decodes."""
        found = self.batch_ms(DECODING, min((one.records for one in self.batches), default=0))
        return None if found is None else found.median


def tables(figures: Figures) -> str:
    """For people."""
    parts = [
        table(
            "Micro-batches: elapsed ms, median (min–max); ratios of medians, and of the least",
            list(_batches(figures)),
        ),
        table(
            "Last report of a round → its first command, ms; × = median trickle batch of the "
            "pass-through that decodes",
            list(_live(figures)),
        ),
        table(
            "Growth with the cluster: ms, median (min–max); a round is what the sweep's "
            "micro-batch takes longer than a note's",
            list(_rounds(figures)),
        ),
        table("Memory (resident MiB) and state", list(_sizes(figures))),
        f"load average {' → '.join(f'{load:.1f}' for load in figures.load)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _batches(figures: Figures) -> Iterator[dict[str, object]]:
    for one in figures.batches:
        yield {
            "reports/batch": f"{one.records:,}",
            "query": one.query,
            "ms": one.batch_ms,
            "batches": one.counted,
            "reports/s": f"{one.per_second:,.0f}",
            **{
                f"÷ {name}": _ratios(one.batch_ms, figures.batch_ms(query, one.records))
                for name, query in _REFERENCES
            },
        }


def _live(figures: Figures) -> Iterator[dict[str, object]]:
    for one in figures.latencies:
        row: dict[str, object] = {
            "reports": "burst" if one.burst else "trickled",
            "trigger ms": one.trigger_ms,
            "rounds": one.rounds,
        }
        for name in ("p50", "p95", "p99"):
            ms = getattr(one, name)
            row[name] = (
                f"{ms:,.0f}"
                if figures.trickle_ms is None
                else f"{ms:,.0f} ({ms / figures.trickle_ms:.1f}×)"
            )
        yield {**row, "largest": f"{one.largest:,.0f}"}


def _rounds(figures: Figures) -> Iterator[dict[str, object]]:
    before: RoundCost | None = None
    for one in figures.rounds:
        grown = (
            "–"
            if before is None
            else f"{one.round_ms.median / before.round_ms.median:.1f}× at "
            f"{one.brokers / before.brokers:.3g}× the size"
        )
        yield {
            "brokers": f"{one.brokers:,}",
            "round": one.round_ms,
            "sweep's batch": one.sweep_ms,
            "note's batch": one.note_ms,
            "all reports": one.pass_ms,
            "round grows": grown,
        }
        before = one


def _sizes(figures: Figures) -> Iterator[dict[str, object]]:
    for memory, state in zip(figures.memory, figures.states, strict=True):
        yield {
            "brokers": f"{memory.brokers:,}",
            "driver (Python)": f"{memory.driver_mib:,.0f}",
            "Java": f"{memory.java_mib:,.0f}",
            "workers": f"{memory.workers_mib:,.0f} in {memory.workers}",
            "state bytes/bundle": f"{state.per_bundle:,.0f}",
            "checkpoint's state MiB": f"{state.file_bytes / 2**20:,.1f}",
        }


def _ratios(one: Sample, reference: Sample | None) -> str:
    return (
        "–"
        if reference is None
        else f"{one.median / reference.median:.2f}, {one.low / reference.low:.2f}"
    )
