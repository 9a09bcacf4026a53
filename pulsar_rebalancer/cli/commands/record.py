"""`rebalancer record`: copies a topic into a recording for `replay`; `rebalancer convert` makes it
a columnar one, which back-tests read many times faster.
"""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from sinks.graceful_stop import stopping
from sinks.recordings import copy_topic
from sinks.recordings.columnar import ENDING
from sinks.topics.open_topics import Skipped, open_reader
from sinks.topics.server_outages import RetryBackoff, watched
from sinks.topics.topic_settings import parse_topic

_Copied = Annotated[
    str | None,
    typer.Option(metavar="URI", help="Topic to copy; default: the settings' telemetry topic."),
]
_Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", help="Continue with new records until Ctrl-C or SIGTERM."),
]
_UntilIdle = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help="Continue until no record has arrived for this time."
    ),
]
_Format = Annotated[
    Literal["jsonl", "parquet"] | None,
    typer.Option(
        "--format",
        help="By default from FILE's ending; parquet is for backtest and tune, and keeps less "
        "of reports.",
    ),
]


def record(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The recording: .jsonl, .jsonl.gz, .jsonl.zst or .parquet."
        ),
    ],
    *,
    topic: _Copied = None,
    follow: _Follow = False,
    until_idle: _UntilIdle = None,
    form: _Format = None,
    force: options.Force = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Copy a topic into a recording, byte for byte; with source.format raw, brokers' reports get
    our envelope.

    Without --follow or --until-idle, copies the present records. The file appears when it is
    complete. Ctrl-C and SIGTERM complete it. If the topic is lost while the command waits for
    records, it completes the file, too, and exits with 1.
    """
    _check(target, force, form)
    connections = options.settings(config, overrides).connections
    copied = parse_topic(topic) if topic is not None else connections.topics.telemetry
    source = copy_topic.source_of(copied, connections)
    until = copy_topic.StopCondition(follow, until_idle, connections.kafka.outage_ms / 1000)
    with (
        stopping() as stop,
        closing(
            open_reader(copied, connections.access, follow=until.waits, source=source)
        ) as reader,
    ):
        outage = RetryBackoff(until.outage_s, stop.wait, console.progress)
        with watched([copied], connections.access, outage):
            unread = Skipped(str(copied), "record")
            done = copy_topic.record(
                reader,
                target,
                until,
                stop,
                console.progress if follow else lambda _: None,
                unread=unread,
                outage=outage,
            )
    console.warn(unread.lines())
    counts = {"records": done.records, "bytes": done.bytes}
    console.answer(
        "recorded",
        {"file": str(target), "topic": str(copied), **counts},
        f"{target}: {done.records} records, {done.bytes} bytes uncompressed",
        as_json=as_json,
    )
    if done.lost is not None:
        raise done.lost
    if done.stopped_by == "SIGINT":
        raise typer.Exit(exit_codes.INTERRUPTED)


def _check(target: Path, force: bool, form: str | None) -> None:
    if form is not None and (form == "parquet") != (target.suffix == ENDING):
        raise typer.BadParameter(
            f"{target.name} does not have the ending of --format {form}", param_hint="FILE"
        )
    if not target.name.endswith(copy_topic.ENDINGS):
        raise typer.BadParameter(
            f"{target.name}: end the name with {', '.join(copy_topic.ENDINGS)}", param_hint="FILE"
        )
    options.refuse_existing(target, force)


def convert(
    recording: Annotated[str, options.JSON_LINES],
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="The columnar recording: .parquet.")
    ],
    *,
    force: options.Force = False,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Convert a JSON Lines recording to a columnar one (Parquet), for `backtest` and `tune`.

    Decisions are the same. Keeps the fields of load reports that decisions depend on, and every
    byte of other records. The file appears when it is complete.
    """
    if target.suffix != ENDING:
        raise typer.BadParameter(f"{target.name}: end the name with {ENDING}", param_hint="FILE")
    options.refuse_existing(target, force)
    done = copy_topic.converted(
        recording, target, options.settings(config, overrides).connections.wire
    )
    size = target.stat().st_size
    console.answer(
        "converted",
        {"file": str(target), "records": done.records, "bytes": size},
        f"{target}: {done.records} records, {size} bytes instead of {done.bytes} uncompressed",
        as_json=as_json,
    )
