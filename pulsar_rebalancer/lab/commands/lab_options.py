"""Options of the commands that ask questions to recordings and models."""

from pathlib import Path
from typing import Annotated

import typer

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
