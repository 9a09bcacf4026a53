"""`rebalancer trace`: the load of a recording as a file for a scenario, as text and JSON."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.lab.recorded_release import columnar
from pulsar_rebalancer.lab.simulation.machine_usage import MIB
from pulsar_rebalancer.lab.trace.loads import Load, Loads, Reading, loads_of
from pulsar_rebalancer.lab.trace.text import scenario_part, write_trace
from sinks.recordings.columnar_reading import read_blocks
from sinks.recordings.copy_topic import ENDINGS
from sinks.recordings.json_lines import check_use
from strategies.errors import SettingsError, SinkError
from strategies.ordered_sum import ordered_sum

#: Names that a scenario accepts for a namespace and that do not break a CSV column.
_NAMESPACE = re.compile(r"[-=:.\w]+(/[-=:.\w]+){1,2}")
#: If reports of bundles contain less than this part of all traffic, the load of namespaces is
#: unknown.
_ENOUGH = 0.95


def extract(
    recording: Path,
    target: Path,
    *,
    interval: float,
    per: Literal["cluster", "namespace"],
    cluster: str | None,
    force: bool,
    config: Path | None,
    overrides: Sequence[str] | None,
    as_json: bool,
) -> None:
    """Writes the trace, and prints the part of a scenario that uses it. Raises BadParameter,
    SettingsError and SinkError.
    """
    if target.name.endswith(ENDINGS):
        raise typer.BadParameter(
            f"{target.name}: a trace is not a recording; end the name with .csv", param_hint="FILE"
        )
    if target.is_dir():
        raise typer.BadParameter(
            f"{target} is a folder; name a file, for example {target / 'load.csv'}",
            param_hint="FILE",
        )
    options.refuse_existing(target, force)

    interval_ms = round(interval * 1000)
    interval = interval_ms / 1000
    wanted = options.settings(config, overrides)
    with columnar(recording, wanted.connections.wire, console.progress) as path:
        reading = loads_of(read_blocks(path), interval_ms, wanted.engine.round, per)
    found = _one(recording, reading, cluster)
    loads = _usable(recording, found, per, interval)
    write_trace(target, loads, interval)
    if as_json:
        console.print_json("trace", 1, _as_json(target, found, loads, interval))
        return
    console.progress(
        f"{target}: {len(loads[0].received)} figures {'each ' if len(loads) > 1 else ''}of "
        f"{interval:g} s"
    )
    console.say(*scenario_part(target, loads, interval))


def _one(recording: Path, reading: Reading, wanted: str | None) -> Loads:
    """The loads of the selected cluster."""
    check_use(str(recording), reading.records, reading.rejected)
    if not reading.clusters:
        raise SinkError(
            f"{recording}: none of its {reading.records} records is a load report; name a "
            "recording of load reports."
        )
    names = ", ".join(reading.clusters)
    if wanted is None and len(reading.clusters) > 1:
        raise SettingsError(
            [f"{recording}: contains several clusters ({names}); name one with --cluster"]
        )
    name = next(iter(reading.clusters)) if wanted is None else wanted
    if name not in reading.clusters:
        raise SettingsError([f"--cluster {name}: is not in {recording}, which contains {names}"])
    return reading.clusters[name]


def _usable(recording: Path, found: Loads, per: str, interval: float) -> Sequence[Load]:
    """The loads that a scenario can use; reports what was left out."""
    if not len(found.everything.received):
        raise SinkError(
            f"{recording}: its load is known for {found.seconds:.0f} s (after the end of the "
            "first pass), less than one interval of "
            f"{interval:g} s; choose a shorter --interval, or record for longer."
        )
    if found.strayed:
        console.progress(
            f"{found.strayed} records are ignored: their time differs by more than a day from "
            "the cluster's"
        )
    if found.silent:
        console.progress(
            f"no broker reported for a part of {found.silent} intervals; there the load counts as 0"
        )
    loads = [found.everything] if per == "cluster" else list(found.namespaces)
    moving = [
        load
        for load in loads
        if load.message_bytes > 0 and (per == "cluster" or _NAMESPACE.fullmatch(load.name))
    ]
    left_out = [load.name for load in loads if load not in moving]
    if not moving:
        raise SinkError(
            f"{recording}: no broker received anything in it; record while there is traffic."
        )
    if left_out:
        console.progress(
            "left out, without traffic or with a name that scenarios do not accept: "
            f"{', '.join(left_out)}"
        )
    known_part = ordered_sum(float(load.received.mean()) for load in loads) / max(
        1.0, float(found.everything.received.mean())
    )
    if per == "namespace" and known_part < _ENOUGH:
        console.progress(
            f"reports of bundles contain only {100 * known_part:.0f} % of the traffic: the "
            "extensible manager reports only the busiest; "
            "--per cluster has all of it"
        )
    return moving


def _as_json(
    target: Path, found: Loads, loads: Sequence[Load], interval: float
) -> dict[str, object]:
    return {
        "file": str(target),
        "cluster": found.cluster,
        "begins_ms": found.begins_ms,
        "interval_s": interval,
        "intervals": len(loads[0].received),
        "silent": found.silent,
        "strayed": found.strayed,
        "loads": [
            {
                "name": load.name,
                "mib_in": float(load.received.mean()) / MIB,
                "message_bytes": load.message_bytes,
                "fan_out": load.fan_out,
                "bundles": load.bundles,
                "topics": load.topics,
            }
            for load in loads
        ],
    }
