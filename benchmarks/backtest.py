"""`python -m benchmarks.backtest`: what a back-test costs beside a plain reading pass over the same
file, and how that grows.

The cluster is made up: a daily wave, noise in every figure, and now and then a broker that runs hot
for half an hour. Absolute times say little on a shared machine; the ratio to the reading pass of
the same run does.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import table
from sinks.recordings.columnar import REPEATED, TRAFFIC, schema

if TYPE_CHECKING:
    from pulsar_rebalancer.lab.backtest.run import BacktestResult

_START_MS, _MINUTE_MS = 1_767_225_600_000, 60_000
#: Rounds of a row group, and how often a broker runs hot for how long.
_ROUNDS, _HOT_EVERY, _HOT_FOR = 60, 2880, 30
SIZES = ("1x100", "3x100", "3x50")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints one line per size and strategy; each is measured in processes of its own, so that
    memory is its own too.
    """
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument(
        "--sizes", nargs="+", default=SIZES, metavar="DAYSxBROKERS", help="for example 30x100"
    )
    options.add_argument("--bundles", type=int, default=100)
    options.add_argument("--loop", choices=("open", "closed"), default="open")
    options.add_argument("--strategy", nargs="+", default=["threshold"], metavar="NAME")
    options.add_argument("--json", action="store_true")
    options.add_argument(
        "--pass", dest="part", choices=("read", "backtest"), help=argparse.SUPPRESS
    )
    options.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args(arguments)
    if chosen.part is not None:
        print(
            json.dumps(
                _read(chosen.file)
                if chosen.part == "read"
                else _backtest(chosen.file, chosen.strategy, chosen.loop)
            )
        )
        return
    rows = [row for size in chosen.sizes for row in _measured(size, chosen)]
    print(
        json.dumps({"v": 1, "rows": rows}, indent=2)
        if chosen.json
        else table(f"Back-test, {chosen.loop} loop", rows)
    )


def _measured(size: str, chosen: argparse.Namespace) -> Iterator[dict[str, object]]:
    days, brokers = (int(part) for part in size.split("x"))
    with tempfile.TemporaryDirectory(prefix="rebalancer-bench-") as folder:
        path = Path(folder) / "recording.parquet"
        write_recording(path, days, brokers, chosen.bundles)
        read = _in_process(path, "read", [], chosen.loop)
        for strategy in chosen.strategy:
            made = _in_process(path, "backtest", [strategy], chosen.loop)
            yield {
                "days": str(days),
                "brokers": str(brokers),
                "GB": f"{path.stat().st_size / 1e9:.2f}",
                "strategy": strategy,
                "reading pass s": f"{read['seconds']:.1f}",
                "back-test s": f"{made['seconds']:.1f}",
                "ratio": f"{made['seconds'] / read['seconds']:.2f}",
                "back-test CPU s": f"{made['cpu']:.1f}",
                "memory MiB": f"{made['memory_mib']:.0f}",
                "rounds": f"{made['rounds']:,}",
                "passed over": f"{made['passed_over']:,}",
                "moves": f"{made['moves']:,}",
            }


def _in_process(path: Path, part: str, strategies: Sequence[str], loop: str) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.backtest",
        "--pass",
        part,
        "--file",
        str(path),
        "--loop",
        loop,
    ]
    command += ["--strategy", *strategies] if strategies else []
    answer: dict[str, Any] = json.loads(
        subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    )
    return answer


def _read(path: Path) -> dict[str, Any]:
    """Every column of every row group, decoded and thrown away, the next one read meanwhile."""
    from sinks.recordings.columnar_reading import read_blocks

    began, records = time.perf_counter(), 0
    for block in read_blocks(path):
        records += len(block.traffic[1]) - 1
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time(), "records": records}


def _backtest(path: Path, strategies: Sequence[str], loop: str) -> dict[str, Any]:
    """Memory: of the largest process."""
    from pulsar_rebalancer.lab.backtest.run import BacktestJob, run_all
    from pulsar_rebalancer.settings.merge_sources import load

    jobs = [
        BacktestJob(
            path,
            one,
            load(flags=[f"shedding.strategy={one}"]),
            "closed" if loop == "closed" else "open",
        )
        for one in strategies
    ]
    began, cpu = time.perf_counter(), _cpu_s()
    counts = run_all(jobs, lambda _: None, _counts)
    return {
        "seconds": time.perf_counter() - began,
        "cpu": _cpu_s() - cpu,
        "memory_mib": max(
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        / 1024,
        "rounds": sum(rounds for rounds, _, _ in counts),
        "passed_over": sum(passed for _, passed, _ in counts),
        "moves": sum(moves for _, _, moves in counts),
    }


def _counts(answer: "BacktestResult") -> tuple[int, int, int]:
    (line,) = answer.timelines
    return line.rounds, answer.passed_over, len(line.moves)


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def write_recording(path: Path, days: int, brokers: int, bundles: int, seed: int = 1) -> None:
    """A columnar recording of one report a minute, straight from arrays: as JSON it would take
    longer than everything else.
    """
    from pyarrow import parquet

    names = [f"broker-{number:03}.pulsar.example:8080" for number in range(brokers)]
    draw = np.random.Generator(np.random.PCG64(seed))
    base = 500.0 + 1000.0 * draw.random((brokers, bundles))
    base *= bundles * 900.0 / base.sum(axis=1, keepdims=True)
    base[:, 0] *= 1.5
    made = schema()
    writer = parquet.ParquetWriter(
        path,
        made,
        compression="zstd",
        compression_level=1,
        use_dictionary=list(REPEATED),
        column_encoding={f"{TRAFFIC}.list.element": "BYTE_STREAM_SPLIT"},
        write_statistics=["ts"],
    )
    with writer:
        for begin in range(0, days * 1440, _ROUNDS):
            writer.write_table(
                _group(begin, names, base, draw, made), row_group_size=_ROUNDS * (brokers + 1)
            )


def _group(begin: int, names: list[str], base: Any, draw: np.random.Generator, made: Any) -> Any:
    """One row group: every round, a report of each broker and the sweep."""
    import pyarrow as pa

    brokers, bundles = base.shape
    rounds = np.arange(begin, begin + _ROUNDS)
    wave = 1.0 + 0.3 * np.sin(2 * np.pi * rounds / 1440)
    rate = (
        wave[:, None, None] * base[None] * (0.95 + 0.1 * draw.random((_ROUNDS, brokers, bundles)))
    )
    hot = rounds % _HOT_EVERY < _HOT_FOR
    rate[hot, (rounds[hot] // _HOT_EVERY) % brokers] *= 1.7
    traffic = np.round(np.stack([rate, rate, 1024 * rate, 1024 * rate], axis=-1), 3)
    totals = traffic.sum(axis=2)
    cpu = (
        16.0 + 0.002 * (totals[..., 0] + totals[..., 1]) + 5e-7 * (totals[..., 2] + totals[..., 3])
    )
    reports = np.ones((_ROUNDS, brokers + 1), dtype=bool)
    reports[:, -1] = False
    where = reports.ravel()
    rows = where.size

    def column(field: Any) -> Any:
        name = field.name
        if name == "kind":
            return pa.DictionaryArray.from_arrays(
                pa.array(np.where(where, 0, 1).astype(np.int32)), ["report", "sweep"]
            )
        if name == "cluster":
            return pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(rows, dtype=np.int32)), ["bench"]
            )
        if name in ("broker", "bundles", "bundle_counts"):
            codes = np.tile(np.arange(brokers + 1, dtype=np.int32), _ROUNDS)
            return pa.DictionaryArray.from_arrays(
                pa.array(codes, mask=~where), _texts(name, names, bundles)
            )
        if name == "ts":
            return pa.array(
                (
                    _START_MS + rounds[:, None] * _MINUTE_MS + 10 * np.arange(brokers + 1)[None, :]
                ).ravel()
            )
        if name == TRAFFIC:
            lengths = np.where(where, bundles * 4, 0)
            offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
            return pa.ListArray.from_arrays(
                pa.array(offsets), pa.array(traffic.ravel()), mask=pa.array(~where)
            )
        if name == "original":
            return pa.array(
                [
                    None if one else _sweep(names, int(rounds[at // (brokers + 1)]))
                    for at, one in enumerate(where.tolist())
                ]
            )
        if name == "digest":
            return pa.array(draw.integers(0, 2**63, rows).astype(np.uint64), mask=~where)
        return _figure(field, where, cpu, totals, bundles)

    return pa.table([column(field).cast(field.type) for field in made], schema=made)


def _figure(field: Any, where: Any, cpu: Any, totals: Any, bundles: int) -> Any:
    import pyarrow as pa

    constants = {
        "cpu_limit": 800.0,
        "memory_usage": 1400.0,
        "memory_limit": 4096.0,
        "direct_memory_usage": 300.0,
        "direct_memory_limit": 8192.0,
        "bandwidth_in_limit": 1e7,
        "bandwidth_out_limit": 1e7,
        "bundle_count": bundles,
    }
    columns = {
        "cpu_usage": cpu,
        "bandwidth_in_usage": totals[..., 2] * 8 / 1000,
        "bandwidth_out_usage": totals[..., 3] * 8 / 1000,
        "msg_rate_in": totals[..., 0],
        "msg_rate_out": totals[..., 1],
        "msg_throughput_in": totals[..., 2],
        "msg_throughput_out": totals[..., 3],
    }
    if field.name in columns:
        values = np.zeros(where.size)
        values[where] = columns[field.name].ravel()
        return pa.array(values, mask=~where)
    if field.name in constants:
        return pa.array(np.full(where.size, constants[field.name]), mask=~where)
    return pa.nulls(where.size, field.type)


def _texts(name: str, names: list[str], bundles: int) -> list[str]:
    if name == "broker":
        return [*names, "-"]
    if name == "bundle_counts":
        return [*["\n".join(["4 8"] * bundles)] * len(names), "-"]
    return [
        *(
            "\n".join(
                f"tenant/ns-{at}/0x{number:08x}_0x{number + 1:08x}" for number in range(bundles)
            )
            for at in range(len(names))
        ),
        "-",
    ]


def _sweep(names: list[str], number: int) -> bytes:
    ts = _START_MS + number * _MINUTE_MS + 10 * len(names)
    record = {
        "v": 1,
        "kind": "sweep",
        "cluster": "bench",
        "ts": ts,
        "sweep": number + 1,
        "brokers": names,
        "missing": {},
    }
    return json.dumps(record, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
