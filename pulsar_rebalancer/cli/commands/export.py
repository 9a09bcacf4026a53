"""`rebalancer export`: the log of decisions as flat tables."""

import sys
from contextlib import nullcontext
from csv import DictWriter
from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.decisions.export import COLUMNS, Table, rows_of
from pulsar_rebalancer.decisions.log import is_there, read_log, with_records
from pulsar_rebalancer.decisions.moments import moment_ms
from pulsar_rebalancer.decisions.plans import read_plans
from sinks.graceful_stop import wall_clock_ms
from sinks.recordings.columnar import ENDING, write_table


def export(
    table: Annotated[Table, typer.Argument(metavar="usage|moves|plans|outcomes", help="What.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .csv or .parquet file; default: CSV to the terminal."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only since this time: 2h before the newest record, or a UTC time.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Folder written by replay --out or demo."),
    ] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
) -> None:
    """Export the usage of brokers by round, moves with outcomes, plans, or outcomes with what moves
    cost: one flat row each.

    Reads the topics in the settings, or --from. Times are UTC (ISO 8601) and ms since the epoch,
    usage is a fraction.
    """
    if out is not None and out.suffix not in (".csv", ENDING):
        raise typer.BadParameter(f"{out} is neither .csv nor {ENDING}", param_hint="--out")
    settings = (options.installation if folder is None else options.settings)(config, overrides)
    log = read_plans(settings.connections) if folder is None else read_log(folder, folder)
    if folder is not None and is_there("outcomes", folder):
        log = with_records(log, "outcomes", folder)
    if not log.last_ms:
        raise options.nothing_found("round or outcome", settings)
    console.warn(log.skipped)
    since_ms = 0 if since is None else moment_ms("--since", since, log.last_ms)
    rows = [row for row in rows_of(table, log, wall_clock_ms()) if row["time_ms"] >= since_ms]
    if out is not None and out.suffix == ENDING:
        write_table(out, {name: kind for name, (kind, _) in COLUMNS[table].items()}, rows)
    else:
        with nullcontext(sys.stdout) if out is None else out.open("w", encoding="utf-8") as file:
            writer = DictWriter(file, COLUMNS[table], lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _csv_cell(cell) for name, cell in row.items()} for row in rows)


def _csv_cell(cell: object) -> object:
    """The cell, with a ' before text that spreadsheets take for a formula: names and reasons are
    other people's. Source: OWASP, CSV injection.
    """
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@"))
    return f"'{cell}" if is_formula else cell
