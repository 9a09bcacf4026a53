"""Builders of telemetry: one line per broker, fresh objects every time."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from strategies.cluster import model
from strategies.cluster.cluster_state import InMemoryStore, StateStore
from strategies.fold.engine import Engine

MIB = 1024 * 1024
T0 = 1_795_000_000_000


def bundle(index: int, namespace: str = "t/ns") -> str:
    return f"{namespace}/0x{index << 24:08x}_0x{(index + 1) << 24:08x}"


def report(
    broker: str,
    seconds: float,
    cpu: float = 50.0,
    bundles: Mapping[str, float] | None = None,
    cluster: str = "c",
) -> model.LoadReport:
    """A report of `broker`, `seconds` after T0: cpu in percent of one core, bundles with their
    throughput in MiB/s (1 KiB messages).
    """
    loads = {bundle(0): 10.0, bundle(1): 10.0} if bundles is None else bundles
    traffic = np.array(
        [[mib * 512, mib * 512, mib * MIB / 2, mib * MIB / 2] for mib in loads.values()]
    ).reshape(len(loads), 4)
    totals = model.Traffic(*(float(total) for total in traffic.sum(axis=0)))
    ones = np.ones(len(loads), dtype=np.int64)
    digest = blake2b(repr((cpu, sorted(loads.items()))).encode(), digest_size=8).hexdigest()
    figures = model.Figures(cpu=model.Resource(cpu, 100.0), traffic=totals, bundle_count=len(loads))
    return model.LoadReport(
        cluster,
        broker,
        T0 + int(seconds * 1000),
        figures,
        model.BundleStats(tuple(loads), traffic, ones, ones),
        digest,
    )


def parts(whole: model.LoadReport, top: int) -> list[model.TelemetryRecord]:
    """A report in the parts in which the extensible load manager publishes it: figures with an
    average of its own, and this number of the busiest bundles.
    """
    figures, stats = whole.figures, whole.bundles
    assert figures is not None
    assert stats is not None
    order = np.argsort(-stats.traffic.sum(axis=1), kind="stable")[:top]
    names = tuple(stats.names[row] for row in order)
    busiest = model.BundleStats(
        names, stats.traffic[order], stats.topics[order], stats.sessions[order]
    )
    average = replace(figures, usage_average=figures.cpu.usage / 100)
    return [
        replace(whole, figures=average, bundles=None),
        replace(whole, figures=None, bundles=busiest, digest=f"{whole.digest}{top}"),
    ]


def sweep(
    seconds: float, *brokers: str, missing: Mapping[str, str] | None = None, cluster: str = "c"
) -> model.Sweep:
    return model.Sweep(cluster, T0 + int(seconds * 1000), int(seconds), brokers, missing or {})


def outcome(
    command_id: str,
    name: str,
    seconds: float,
    status: model.OutcomeStatus,
    owner_after: str | None = None,
) -> model.OutcomeReport:
    ts = T0 + int(seconds * 1000)
    return model.OutcomeReport(
        "c", ts, model.Outcome(command_id, "c", name, status, None, None, owner_after, 5, ts)
    )


def fold_all(
    engine: Engine, records: Iterable[model.TelemetryRecord], store: StateStore | None = None
) -> list[model.Event]:
    store = store or InMemoryStore()
    return [event for record in records for event in engine.fold(record, store)]


def rounds(events: Iterable[model.Event]) -> list[model.Round]:
    return [event for event in events if isinstance(event, model.Round)]


def commands(events: Iterable[model.Event]) -> list[model.Command]:
    return [event for event in events if isinstance(event, model.Command)]


def rejections(events: Iterable[model.Event]) -> list[model.Rejection]:
    return [event for event in events if isinstance(event, model.Rejection)]
