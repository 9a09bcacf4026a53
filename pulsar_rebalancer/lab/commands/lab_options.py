"""Options of the commands that ask questions to recordings and models."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pulsar_rebalancer.cli import console
from strategies.java.pulsar_releases import PULSAR_VERSION, RELEASES

if TYPE_CHECKING:
    from pulsar_rebalancer.settings.merge_sources import Settings

#: A recording of any form.
Recording = Annotated[
    Path,
    typer.Argument(metavar="RECORDING", help="A .parquet, .jsonl, .jsonl.gz or .jsonl.zst file."),
]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a report with charts as one HTML file.")
]
FailOnImbalance = Annotated[
    bool,
    typer.Option(
        "--fail-on-imbalance",
        help="Exit with 3 if the last round of a cluster is above its strategy's target spread, or "
        "could not be judged.",
    ),
]


def in_recorded_release(
    settings: "Settings", recording: Path | str | Iterable[bytes]
) -> "Settings":
    """The settings with the Pulsar release that a recording names, or telemetry records, if they
    leave it open. Reports on standard error what differs from the usual. Raises SinkError.
    """
    if not settings.release_is_open:
        return settings
    from pulsar_rebalancer.lab.recorded_release import recorded_release, release_in

    found = (
        recorded_release(recording) if isinstance(recording, Path | str) else release_in(recording)
    )
    if found.release != RELEASES[0]:
        console.progress(f"{PULSAR_VERSION}: {found.release} (auto, by the records: {found.why})")
    console.warn([f"{PULSAR_VERSION}: {remark}" for remark in found.remarks])
    return settings.in_release(found.release)
