"""What the first records of a recording say of its brokers: the Pulsar release whose rules apply
with `pulsar.version = "auto"`, that of the oldest broker, and their load manager.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sinks.recordings.columnar import ENDING, KINDS, ColumnarRecording
from sinks.recordings.columnar_reading import read_blocks
from sinks.recordings.copy_topic import converted
from sinks.recordings.json_lines import open_recording
from sinks.topics.open_topics import records_of
from sinks.topics.topic_settings import Connections
from sinks.wire.raw_broker_reports import brokers_in
from sinks.wire.record_decoding import WireLimits
from strategies.errors import SinkError
from strategies.java.pulsar_versions_and_defaults import ClusterRelease, release_of

#: Number and bytes of the first records that are read: every broker reports within minutes.
_MOST_RECORDS, _MOST_BYTES = 20_000, 64 * 2**20
_OTHER, _REPORT = KINDS.index("other"), KINDS.index("report")


def recorded_release(recording: Path | str) -> ClusterRelease:
    """The release by the first records of a recording. A columnar one has no load reports as their
    brokers sent them: there the policies name the versions. What can be read only once, such as
    standard input, is not looked at. Raises SinkError.
    """
    if not Path(recording).is_file():
        return release_of({})
    is_columnar = Path(recording).suffix == ENDING
    return release_in(_originals(Path(recording)) if is_columnar else open_recording(recording))


def release_in(values: Iterable[bytes]) -> ClusterRelease:
    """The release by the first of these telemetry records."""
    found: dict[str, str] = {}
    size = 0
    for number, value in enumerate(values):
        if number == _MOST_RECORDS or size > _MOST_BYTES:
            break
        size += len(value)
        found |= brokers_in(value) or {}
    return release_of(found)


def _originals(recording: Path) -> Iterator[bytes]:
    records = 0
    for block in read_blocks(recording):
        for kind, original in zip(block.kinds.tolist(), block.originals.to_pylist(), strict=True):
            if kind == _OTHER:
                yield original
        records += len(block)
        if records >= _MOST_RECORDS:
            return


def is_of_extensible(recording: Path) -> bool:
    """Whether the brokers of a columnar recording run the extensible load manager. Raises
    SinkError, also for clusters of both kinds: no broker.conf is that of both.
    """
    kinds = _load_managers(recording)
    if len({*kinds.values()}) > 1:
        names = [
            f"{cluster} {'the extensible' if kind else 'the modular'}"
            for cluster, kind in kinds.items()
        ]
        raise SinkError(
            f"the clusters of the recording run different load managers ({', '.join(names)}); make "
            "a recording of each, and preview them one by one."
        )
    return any(kinds.values())


def _load_managers(recording: Path) -> dict[str, bool]:
    """Cluster → whether it runs the extensible load manager, whose reports have figures or bundles,
    never both: by the part of the recording with its first reports.
    """
    for block in read_blocks(recording):
        reports = block.kinds == _REPORT
        if reports.any():
            clusters, bundles = block.clusters[reports], block.bundles[reports]
            return {
                block.texts["cluster"][one]: bool(np.any(bundles[clusters == one] < 0))
                for one in np.unique(clusters).tolist()
            }
    return {}


@contextmanager
def columnar_topic(connections: Connections, since_ms: int) -> Iterator[Path]:
    """Path of a columnar recording of the records that the telemetry topic holds now. `since_ms`:
    see `open_reader`. Raises SinkError, SettingsError also if pyarrow is missing.
    """
    with tempfile.TemporaryDirectory(prefix="rebalancer-advise-") as folder:
        target = Path(folder) / f"topic{ENDING}"
        with ColumnarRecording(target, connections.wire) as recording:
            recording.append(
                one.value
                for one in records_of(
                    connections.topics.telemetry,
                    connections.access,
                    since_ms,
                    connections.source,
                    connections.wire,
                )
            )
        yield target


@contextmanager
def columnar(recording: Path, limits: WireLimits, say: Callable[[str], None]) -> Iterator[Path]:
    """Path of the columnar recording. Raises SinkError for a recording that cannot be read,
    SettingsError if pyarrow is missing.
    """
    if recording.suffix == ENDING:
        yield recording
        return
    with tempfile.TemporaryDirectory(prefix="rebalancer-backtest-") as folder:
        target = Path(folder) / f"recording{ENDING}"
        done = converted(str(recording), target, limits)
        say(
            f"{done.records} records read; `rebalancer convert` writes a columnar file, which "
            "is read many times faster"
        )
        yield target
