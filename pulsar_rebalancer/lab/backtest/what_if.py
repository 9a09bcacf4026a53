"""What-if questions to a recording: more or fewer brokers, more traffic, other isolation policies.
Each makes another recording of the same cluster, which back-tests read like any other.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.backtest.reassigned import LIMITS, NONE_IDLE, USAGES, Idle
from pulsar_rebalancer.lab.backtest.start_elsewhere import (
    PoliciesByName,
    StartElsewhere,
    policies_by_name,
    read_policies_file,
)
from pulsar_rebalancer.lab.recorded_release import is_of_extensible
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.recordings.columnar import KINDS, ColumnarRecording
from sinks.recordings.columnar_reading import Block, read_blocks
from sinks.wire.record_decoding import decode
from sinks.wire.signing_keys import intents_key
from strategies.bundles import THROUGHPUT_IN, THROUGHPUT_OUT, namespace_of
from strategies.cluster.model import (
    BundleStats,
    Figures,
    LoadReport,
    Policies,
    Sweep,
    TelemetryRecord,
)
from strategies.errors import raise_complaints
from strategies.figures.texts_of_counts_names_and_ages import first_of
from strategies.figures.usage_after_moves import burdened
from strategies.patterns_and_windows import of_namespaces

#: A record and its bytes.
_Line = tuple[bytes, TelemetryRecord | None]
_ADDED = re.compile("(?:(?P<number>[1-9][0-9]{0,2})|(?P<name>[^=:]+:[0-9]+))=(?P<machine>.+)")
_SCALED = re.compile(r"(?P<names>.+)=(?P<by>[0-9]{1,6}(?:\.[0-9]+)?)")
_FORMS = {
    _ADDED: "N=machine: a number below 1000 or a name host:port, and the recorded broker whose "
    "machine is copied, such as 2=broker-1:8080",
    _SCALED: "namespaces=factor, such as 'tenant/*=2'",
}
#: Names that a complaint lists.
_NAMED = 8
#: Usage (part of a machine) from which on it no longer follows traffic.
_FULL = 0.95
#: Part by which traffic must vary to show idle usage, which is drawn to 0: with constant traffic it
#: may be anything.
_STEADY = 0.01


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes of a recorded cluster. `removed`: brokers that never were; `added`: new broker → the
    recorded one whose machine it copies; `factors`: pattern of namespaces → factor of traffic;
    `policies`: isolation policies that replace the recorded ones, None to keep them.
    """

    removed: tuple[str, ...] = ()
    added: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    policies: PoliciesByName | None = None

    def sentences(self) -> list[str]:
        """One part of a sentence per change; none without changes."""
        return [
            *(f"without {broker}" for broker in self.removed),
            *(f"with {name}, empty, like {machine}" for name, machine in self.added.items()),
            *(f"traffic of {names} times {by:g}" for names, by in self.factors.items()),
            *([] if self.policies is None else ["with the isolation policies of --policies"]),
        ]


def read_what_if(
    add: Sequence[str], remove: Sequence[str], scale: Sequence[str], policies: Path | None
) -> WhatIf:
    """The changes of a command line. Raises SettingsError for what is not understood."""
    added = dict[str, str]()
    for one in _parsed("--add-broker", add, _ADDED):
        numbers = range(len(added) + 1, len(added) + 1 + int(one["number"] or 0))
        names = [f"added-{number}:8080" for number in numbers] or [one["name"]]
        added |= dict.fromkeys(names, one["machine"])
    factors = {one["names"]: float(one["by"]) for one in _parsed("--scale", scale, _SCALED)}
    return WhatIf(
        tuple(dict.fromkeys(remove)),
        added,
        factors,
        None if policies is None else read_policies_file(policies),
    )


def _parsed(flag: str, texts: Sequence[str], form: re.Pattern[str]) -> list[re.Match[str]]:
    found = [(text, form.fullmatch(text)) for text in texts]
    wrong = [f"{flag} {text!r}: write {_FORMS[form]}" for text, match in found if match is None]
    raise_complaints(wrong)
    return [match for _, match in found if match is not None]


@contextmanager
def changed(
    recording: Path, change: WhatIf, settings: Settings
) -> Iterator[tuple[Path, list[dict[str, str | None]], Idle]]:
    """The changed recording, the bundles that new policies unload, and the idle usage of its
    brokers. `recording`: a columnar one, which stays as it is. Raises SettingsError for names that
    it does not have, SinkError.
    """
    if change == WhatIf():
        yield recording, [], NONE_IDLE
        return
    _check(recording, change)
    idle = idle_usage(read_blocks(recording))
    recorded = list[PoliciesByName]()
    with tempfile.TemporaryDirectory(prefix="rebalancer-what-if-") as folder:
        edited, target = Path(folder, "edited.parquet"), Path(folder, "changed.parquet")
        with ColumnarRecording(edited) as out:
            for line in _edited(
                _lines(read_blocks(recording, with_traffic=True)), change, recorded, idle
            ):
                out.write(*line)
        policies = next(iter(recorded), {})
        start = StartElsewhere(change.removed, policies, change.policies, settings.engine, idle)
        blocks = read_blocks(
            edited, with_traffic=True, intents_key=intents_key(settings.connections.signing)
        )
        with ColumnarRecording(target) as out:
            for value, record in _lines(start.passes(blocks)):
                if getattr(record, "broker", None) not in change.removed:
                    out.write(value, record)
        yield target, start.unloads, idle


def idle_usage(blocks: Iterable[Block]) -> Idle:
    """The idle usage of all brokers, by least squares of usage = idle + cost of messages + cost of
    bytes in parts of a machine, whose costs on all machines are alike in absolute figures. Raises
    SinkError if the blocks cannot be read.
    """
    products = np.zeros((2, 4, 4))
    for block in blocks:
        messages, data = (block.figures[:, two].sum(axis=1) for two in ([10, 11], [12, 13]))
        for at, (use, most) in enumerate(zip(*block.figures.T[[USAGES, LIMITS]], strict=True)):
            rows = np.column_stack([most, messages / 1e3, data / 1e6, use])
            # A broker that has just started reports no usage.
            rows = rows[(use > 0) & (use < _FULL * most)]
            rows /= rows[:, :1]
            products[at] += rows.T @ rows
    products[:, 0, 0] *= 1.0 + _STEADY * _STEADY
    cpu, direct = (np.linalg.lstsq(one[:3, :3], one[:3, 3])[0][0] for one in products)
    return max(0.0, float(cpu)), max(0.0, float(direct))


def _lines(blocks: Iterable[Block]) -> Iterator[_Line]:
    for block in blocks:
        for row in range(len(block)):
            yield block.original(row), block.record(row)


def _check(recording: Path, change: WhatIf) -> None:
    """Raises SettingsError for changes that the recording does not allow."""
    brokers, clusters, bundles, swept = dict[str, None](), set[str](), set[str](), False
    for block in read_blocks(recording):
        brokers |= dict.fromkeys(block.texts["broker"])
        clusters.update(block.texts["cluster"])
        bundles.update(name for text in block.texts["bundles"] for name in text.split())
        swept = swept or bool((block.kinds == KINDS.index("sweep")).any())
    namespaces, there = sorted({*map(namespace_of, bundles)}), first_of([*brokers], _NAMED)
    named = [("--remove-broker", one) for one in change.removed]
    named += [("--add-broker", one) for one in dict.fromkeys(change.added.values())]
    elsewhere = bool(change.removed) or change.policies is not None
    complaints = [
        *(
            f"{flag} {name}: no such broker in the recording; it has {there}"
            for flag, name in named
            if name not in brokers
        ),
        *(
            f"--add-broker {name}: is in the recording; choose another name"
            for name in change.added
            if name in brokers
        ),
        *(
            f"--scale {names}: no such namespace in the recording; it has "
            f"{first_of(namespaces, _NAMED)}"
            for names in change.factors
            if not any(map(of_namespaces(names), bundles))
        ),
        *(
            text
            for wrong, text in (
                (
                    brokers.keys() <= {*change.removed},
                    "--remove-broker: no broker is left; keep one",
                ),
                (
                    elsewhere and not (swept and len(clusters) == 1),
                    "--remove-broker and --policies need a recording of one cluster with sweep "
                    "markers, as `rebalancer collect` makes it",
                ),
                (
                    (change.removed or change.factors) and is_of_extensible(recording),
                    "--remove-broker and --scale: reports of the extensible load manager do not "
                    "say which load belongs to which bundle; use a recording of the modular one",
                ),
            )
            if wrong
        ),
    ]
    raise_complaints(complaints)


_NO_BUNDLES = BundleStats((), np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _edited(
    lines: Iterable[_Line], change: WhatIf, recorded: list[PoliciesByName], idle: Idle
) -> Iterator[_Line]:
    """The changed records; `recorded` gets the isolation policies before the change, in turn."""
    begun = False
    for value, record in lines:
        if isinstance(record, LoadReport):
            if not begun and change.policies is not None:
                head = {"v": 1, "kind": "policies", "cluster": record.cluster, "ts": record.ts}
                yield _line({**head, "report": {"isolation": change.policies}})
            begun = True
            scaled = _scaled(record, change.factors, idle)
            yield value, scaled
            for name, machine in change.added.items():
                if machine == record.broker:
                    yield value, _empty(scaled, name, idle)
        elif isinstance(record, Sweep):
            tree = json.loads(value)
            tree |= {
                key: [*_of_brokers(dict.fromkeys(tree[key]), change)]
                for key in ("brokers", "answering")
                if key in tree
            }
            yield _line({**tree, "missing": _of_brokers(tree["missing"], change)})
        elif isinstance(record, Policies):
            report = (tree := json.loads(value))["report"]
            recorded.append(policies_by_name(report.get("isolation")))
            isolation = report.get("isolation") if change.policies is None else change.policies
            facts = _of_brokers(report.get("brokers", {}), change)
            yield _line({**tree, "report": {**report, "isolation": isolation, "brokers": facts}})
        else:
            yield value, record


def _of_brokers(facts: Mapping[str, Any], change: WhatIf) -> dict[str, Any]:
    """The facts without removed brokers, and with copies for the added ones."""
    added = {new: facts[one] for new, one in change.added.items() if one in facts}
    return {one: facts[one] for one in facts if one not in change.removed} | added


def _scaled(record: LoadReport, factors: Mapping[str, float], idle: Idle) -> LoadReport:
    stats, figures = record.bundles, record.figures
    for names, by in factors.items():
        if stats is None or figures is None:
            break
        mask = np.array([*map(of_namespaces(names), stats.names)], dtype=bool)
        moved = stats.traffic[mask][:, [THROUGHPUT_IN, THROUGHPUT_OUT]].sum()
        share = float(moved) / max(figures.traffic.msg_throughput, 1e-9)
        figures = burdened(figures, _following(figures, idle), (by - 1.0) * min(1.0, share))
        stats = replace(stats, traffic=np.where(mask[:, None], by, 1.0) * stats.traffic)
    return replace(record, figures=figures, bundles=stats, left_out=())


def _empty(record: LoadReport, name: str, idle: Idle) -> LoadReport:
    """The report of an empty broker on the same machine. Its heap memory is as full: that does not
    follow the load.
    """
    figures = record.figures and burdened(record.figures, _following(record.figures, idle), -1.0)
    empty = figures and replace(figures, bundle_count=0)
    return replace(record, broker=name, figures=empty, bundles=record.bundles and _NO_BUNDLES)


def _following(figures: Figures, idle: Idle) -> Figures:
    """The figures without the idle usage: what follows traffic."""
    cpu, direct_memory = (
        replace(one, usage=max(0.0, one.usage - part * one.limit))
        for one, part in zip((figures.cpu, figures.direct_memory), idle, strict=True)
    )
    return replace(figures, cpu=cpu, direct_memory=direct_memory)


def _line(tree: Mapping[str, Any]) -> _Line:
    value = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
    return value, decode(value, b"")
