"""`rebalancer replay`: decisions for a recording, computed by the plain loop or by Spark, or for
piped records.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.lab.command_options import html_and_recording_options

EngineKind = Literal["plain", "spark"]
_FromTopic = Annotated[
    str | None,
    typer.Option(metavar="URI", help="Use all present records of a topic, not a recording."),
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="DIR", help="Write the output topics as files to DIR."),
]
_ShufflePartitions = Annotated[
    int | None,
    typer.Option(metavar="N", help="With --engine spark: number of state partitions."),
]
_Rejected = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With -: write rejected records to this file as JSON lines."),
]
_RecordsPerBatch = Annotated[
    int | None, typer.Option(metavar="N", help="With --engine spark: records per micro-batch.")
]
_Engine = Annotated[
    EngineKind, typer.Option(help="Decide in this process, or in the streaming job.")
]


def replay(
    recording: Annotated[str | None, options.JSON_LINES] = None,
    *,
    from_topic: _FromTopic = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    out: _Out = None,
    engine: _Engine = "plain",
    records_per_batch: _RecordsPerBatch = None,
    shuffle_partitions: _ShufflePartitions = None,
    rejected: _Rejected = None,
    html: html_and_recording_options.Html = None,
    fail_on_imbalance: html_and_recording_options.FailOnImbalance = False,
    as_json: options.Json = False,
) -> None:
    """Compute decisions for a recording or piped records; print or store them.

    With --out DIR, writes commands.jsonl, rounds.jsonl, rejected.jsonl and, if there are outcomes,
    outcomes.jsonl, and prints a summary; without it, prints one line per decision.
    Equal recordings and settings give equal bytes with both engines.

    With - as the recording, reads records from standard input and writes to standard output: when a
    round closes, its commands, then its round record, one JSON object per line, before it reads
    more input. Rejected records are reported on standard error.
    """
    from pulsar_rebalancer.lab.command_runs.line_by_line_replay import pipe
    from pulsar_rebalancer.lab.command_runs.replay import decide_all

    flags = options.flags(
        job__max_records_per_batch=records_per_batch, job__shuffle_partitions=shuffle_partitions
    )
    if recording == "-":
        _refuse_with_pipe(
            out=out, html=html, engine=engine, as_json=as_json, fail_on_imbalance=fail_on_imbalance
        )
    elif (recording is None) == (from_topic is None):
        raise typer.BadParameter("name either a recording or --from-topic", param_hint="RECORDING")
    elif rejected is not None:
        raise typer.BadParameter(
            "only with - as the recording; --out DIR writes rejected.jsonl", param_hint="--rejected"
        )
    html_and_recording_options.check_target(html)
    settings = options.settings(config, overrides, *flags)
    console.warn(settings.warnings)
    if recording == "-":
        pipe(settings, rejected)
        return
    decide_all(
        recording,
        recording or str(from_topic),
        settings,
        engine,
        out=out,
        html=html,
        fail_on_imbalance=fail_on_imbalance,
        as_json=as_json,
    )


def _refuse_with_pipe(**given: object) -> None:
    for name, value in given.items():
        if value not in (None, False, "plain"):
            raise typer.BadParameter(
                "not with - as the recording, which answers line by line",
                param_hint=f"--{name.replace('_', '-')}",
            )
