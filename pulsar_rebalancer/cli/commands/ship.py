"""`rebalancer ship`: packs what Spark's workers need, or the job as an application of Spark."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from streaming.cluster.shipping import (
    client_words,
    cluster_words,
    python_name,
    write_application,
    write_environment,
)


def ship(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Archive to write; its name ends with .tar.gz."),
    ] = None,
    *,
    application: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the job as an application for spark-submit to this folder."
        ),
    ] = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Pack all installed Python packages that the job needs, for workers that have only Python and
    Spark; with --application, the whole job for spark-submit.

    Set job.environment to the archive, and every worker unpacks it; the job sends our own code
    itself. Workers need Python of the same minor version on their PATH, and the same platform.
    """
    if (file is None) == (application is None):
        raise typer.BadParameter(
            "name either the archive to write or --application DIR", param_hint="FILE"
        )
    if file is not None:
        _ship_environment(file, as_json)
    elif application is not None:
        job = options.settings(config, overrides).job
        made = write_application(application, job)
        arguments = _run_words(config, overrides or ())
        # The command line of each mode.
        modes = {"client": client_words(made, job, arguments)}
        if job.master.startswith("spark://"):
            modes["cluster"] = cluster_words(made, job, arguments)
        files = made.files()
        console.answer(
            "application",
            {"files": [str(one) for one in files], "spark_submit": modes},
            *(f"{one}: {one.stat().st_size / 2**20:.1f} MiB" for one in files),
            *(f"{mode} mode: {shlex.join(words)}" for mode, words in modes.items()),
            as_json=as_json,
        )


def _run_words(config: Path | None, overrides: Sequence[str]) -> list[str]:
    """The arguments of the application, without settings that spark-submit has itself."""
    kept = [one for one in overrides if not one.startswith(("job.master=", "job.environment="))]
    named = ["--config", str(config.absolute())] if config is not None else []
    return ["run", *named, *(word for one in kept for word in ("--set", one))]


def _ship_environment(file: Path, as_json: bool) -> None:
    manifest = write_environment(file)
    size = file.stat().st_size
    console.answer(
        "environment",
        {
            "file": str(file.absolute()),
            "bytes": size,
            "python": manifest.python,
            "packages": dict(manifest.packages),
        },
        f"{file}: {len(manifest.packages)} packages, {size / 2**20:.0f} MiB, for workers with "
        f"{python_name()} on {manifest.platform}; "
        f"use it with: rebalancer run --set job.environment={file.absolute()}",
        as_json=as_json,
    )
