"""Recorded loads as trace files, and as the part of a scenario that reads them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pulsar_rebalancer.lab.report.page import replace_file
from pulsar_rebalancer.lab.simulation.machine_usage import MIB
from pulsar_rebalancer.lab.trace.loads import EVERYTHING, Load
from pulsar_rebalancer.settings.settings_file_text import toml
from strategies.errors import SinkError
from strategies.ordered_sum import ordered_sum


def write_trace(file: Path, loads: Sequence[Load], interval_s: float) -> None:
    """Writes one line per interval: its start and the MiB/s in of each load. The file is written
    atomically. Raises SinkError.
    """
    lines = [
        f"{number * interval_s:.15g},{','.join(f'{figure:.6g}' for figure in row)}"
        for number, row in enumerate(
            np.stack([load.received / MIB for load in loads], axis=1).tolist()
        )
    ]
    heading = f"# seconds,{','.join(load.name for load in loads)}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, ["\n".join([heading, *lines, ""]).encode()])
    except OSError as error:
        raise SinkError(
            f"{file} cannot be written ({error.strerror or error}); free space, or name "
            "another file."
        ) from error


def scenario_part(file: Path, loads: Sequence[Load], interval_s: float) -> Iterator[str]:
    """Lines of a scenario with these loads: duration, namespaces and traffic."""
    yield f"minutes = {max(2, round(len(loads[0].received) * interval_s / 60))}"
    yield f"bundles = {max(len(loads), ordered_sum(load.bundles for load in loads))}"
    apart = [load for load in loads if load.name != EVERYTHING]
    for load in apart:
        yield from (
            "",
            "[[namespaces]]",
            f"name = {toml(load.name)}",
            f"share = {max(1, load.bundles)}",
        )
    for load in loads:
        yield from ("", "[[traffic]]", f"name = {toml(load.name)}")
        if apart:
            yield f"namespace = {toml(load.name)}"
        yield f"mib_in = {load.received.mean() / MIB:.6g}"
        yield f"message_bytes = {load.message_bytes:.6g}"
        yield f"fan_out = {load.fan_out:.6g}"
        yield f"partitions = {max(1, load.topics)}"
        source = (
            f"interval_s = {interval_s:.15g}, file = {toml(file.name)}, column = {toml(load.name)}"
        )
        yield f'wave = {{ kind = "trace", {source} }}'
