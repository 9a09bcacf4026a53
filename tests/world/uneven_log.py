"""A small log of an uneven cluster, and settings with which it is acted on at once."""

from collections.abc import Sequence
from pathlib import Path

from tests.telemetry_lines import bundle, load_report, sweep

#: An AvgShedder that acts on the first round with a difference of 5 points.
EAGER = (
    "shedding.strategy=avg",
    "shedding.avg.low_threshold=5",
    "shedding.avg.high_threshold=5",
    "shedding.avg.hit_count_high=1",
    "shedding.avg.max_unload=0.5",
    "shedding.avg.min_msg_rate=1",
    "shedding.avg.min_throughput=1",
)
EAGER_WORDS = [word for setting in EAGER for word in ("--set", setting)]


def uneven(cluster: str = "c", rounds: int = 3) -> list[bytes]:
    """A hot and an idle broker, reporting once a minute; figures change from minute to minute."""
    lines = []
    for minute in range(rounds):
        loads = {bundle(number): 100.0 + 10 * number + minute for number in range(8)}
        lines.append(load_report("hot:1", 60 * minute, loads, cpu=90.0 - minute, cluster=cluster))
        lines.append(
            load_report(
                "idle:1",
                60 * minute + 1,
                {bundle(9): 1.0 + minute},
                cpu=5.0 + minute,
                cluster=cluster,
            )
        )
        lines.append(sweep(60 * minute + 2, "hot:1", "idle:1", cluster=cluster))
    return lines


def recorded(folder: Path, lines: Sequence[bytes], name: str = "log.jsonl") -> Path:
    file = folder / name
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return file
