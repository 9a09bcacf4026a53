"""Starts the command line in a process that `spark-submit` started: unpacks the application and the
archive of packages, then does what `rebalancer` does.

Until then it imports only Python itself, Spark, and modules of ours without dependencies.
"""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from streaming.cluster.gateway import is_submitted, shipped_archive, spark_setting
from streaming.cluster.shipping import APPLICATION, PACKAGES, UNPACKED


def main() -> None:
    """Runs `rebalancer` with the arguments of the application."""
    if not is_submitted():
        sys.exit(
            "This is an application of Spark: start it with spark-submit, or run the program "
            "itself: rebalancer run"
        )
    _find_packages()
    _find_code()
    master, archive = (
        spark_setting("spark.master"),
        shipped_archive(spark_setting("spark.archives")),
    )
    os.environ["REBALANCER_JOB__MASTER"] = master
    if archive:
        os.environ["REBALANCER_JOB__ENVIRONMENT"] = _path(archive) or archive
    importlib.import_module("rebalancer.cli.main").main()


def _find_packages() -> None:
    """Puts the packages of the archive first, as workers do. Without an archive, this Python has
    them.
    """
    here = Path(UNPACKED).absolute()  # YARN and Kubernetes unpack it for the driver, too
    archive = _path(shipped_archive(spark_setting("spark.archives")))
    if here.is_dir():
        sys.path.insert(0, str(here))
    elif archive and Path(archive).is_file():
        target = _temporary("packages") / "site-packages"  # by this name our paths are found
        with tarfile.open(archive) as file:
            file.extractall(target, filter="data")
        sys.path.insert(0, str(target))


def _find_code() -> None:
    """Unpacks our own packages: some read files beside their code, and workers get them from
    there.
    """
    source = next((path for path in sys.path if Path(path).name in APPLICATION), None)
    if source is None or not zipfile.is_zipfile(source):
        return
    target = _temporary("code")
    with zipfile.ZipFile(source) as file:
        file.extractall(target)
    sys.path[:] = [str(target), *(path for path in sys.path if path != source)]
    _forget(PACKAGES)


def _forget(packages: Collection[str]) -> None:
    """Modules that were loaded from the zip are loaded again from the folder."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
    importlib.invalidate_caches()


def _path(archive: str) -> str:
    """The path of a local archive; empty for one that is elsewhere."""
    parts = urlsplit(archive)
    return parts.path if parts.scheme in ("", "file", "local") else ""


def _temporary(name: str) -> Path:
    folder = tempfile.mkdtemp(prefix=f"rebalancer-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
