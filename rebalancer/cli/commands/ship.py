"""`rebalancer ship`: packs the Python packages that Spark's workers need into one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli import console, options
from streaming.cluster.shipping import python_name, write_environment

app = typer.Typer()


@app.command()
def ship(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Archive to write; its name ends with .tar.gz.")
    ],
    *,
    as_json: options.Json = False,
) -> None:
    """Pack all installed Python packages that the job needs, for workers that have only Python and
    Spark.

    Set job.environment to the archive, and every worker unpacks it; the job sends our own code
    itself. Workers need Python of the same minor version on their PATH, and the same platform.
    """
    manifest = write_environment(file)
    size = file.stat().st_size
    if as_json:
        console.print_json(
            "environment",
            1,
            {
                "file": str(file.absolute()),
                "bytes": size,
                "python": manifest.python,
                "packages": dict(manifest.packages),
            },
        )
    else:
        print(
            f"{file}: {len(manifest.packages)} packages, {size / 2**20:.0f} MiB, for workers with "
            f"{python_name()} on {manifest.platform}; "
            f"use it with: rebalancer run --set job.environment={file.absolute()}"
        )
