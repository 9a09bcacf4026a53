"""`rebalancer ship`: the Python packages that Spark's workers need, in one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rebalancer.cli import console, options
from streaming.cluster.shipping import python_name, write_environment

app = typer.Typer()


@app.command()
def ship(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write; its name ends with .tar.gz.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Pack all Python packages that the job needs, as they are installed here, for workers that have only Python and Spark.

    Name the archive as job.environment, and every worker unpacks it; our own code travels with the job by itself. The workers need a Python
    of the same minor version on their PATH, and the same kind of machine.
    """
    manifest = write_environment(file)
    size = file.stat().st_size
    if as_json:
        packages = dict(manifest.packages)
        console.print_json("environment", 1, {"file": str(file.absolute()), "bytes": size, "python": manifest.python, "packages": packages})
        return
    print(
        f"{file}: {len(manifest.packages)} packages, {size / 2**20:.0f} MiB, for workers with {python_name()} on {manifest.platform}; "
        f"use it with: rebalancer run --set job.environment={file.absolute()}"
    )
