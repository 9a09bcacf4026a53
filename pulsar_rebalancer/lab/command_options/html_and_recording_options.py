"""Options of the commands that ask questions to recordings and models, and the check of --html
before the work that it shows.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from strategies.errors import SettingsError

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


def check_target(html: Path | None) -> None:
    """Raises SettingsError if the page cannot be written; None: no page is requested."""
    if html is None:
        return
    from pulsar_rebalancer.lab.report.page import NO_PLOTLY, can_write

    if not can_write():
        raise SettingsError([NO_PLOTLY])
    if html.is_dir():
        raise SettingsError(
            [f"--html: {html} is a folder; name a file, for example {html / 'report.html'}"]
        )
    existing = next(above for above in html.absolute().parents if above.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise SettingsError(
            [f"--html: {html} cannot be written, {existing} is not writable; name a file elsewhere"]
        )
