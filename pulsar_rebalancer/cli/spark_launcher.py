"""Starts the command line in a process that `spark-submit` started: unpacks the application and the
archive of packages, then does what `rebalancer` does.

Until then it imports only Python itself, Spark, and modules of ours without dependencies.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from strategies.errors import SettingsError
from streaming.cluster.gateway import (
    SPARK_VERSION,
    is_submitted,
    shipped_archive,
    spark_setting,
)
from streaming.cluster.shipping import APPLICATION, PACKAGES, UNPACKED, python_name, read_manifest

_UNREADABLE = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


def main() -> None:
    """Runs `rebalancer` with the arguments of the application."""
    if not is_submitted():
        sys.exit(
            "This is an application of Spark: start it with spark-submit, or run the program "
            "itself: rebalancer run"
        )
    master, archive = (
        spark_setting("spark.master"),
        shipped_archive(spark_setting("spark.archives")),
    )
    try:
        _find_packages(archive)
        _find_code()
    except SettingsError as error:
        _end(error.complaints[0])
    except _UNREADABLE as error:
        _end(f"the application cannot be unpacked into {tempfile.gettempdir()}: {error}")
    check_spark(SPARK_VERSION)
    archive_here = _path(archive) or archive
    os.environ["REBALANCER_JOB__MASTER"] = master
    if archive:
        os.environ["REBALANCER_JOB__ENVIRONMENT"] = archive_here
    sys.argv[1:] = with_those_of_spark(sys.argv[1:], master, archive_here)
    try:
        program = importlib.import_module("pulsar_rebalancer.cli.main")
    except ImportError as error:
        _end(f"{error}: {_why_missing(archive)}")
    program.main()


def with_those_of_spark(words: Sequence[str], master: str, archive: str) -> list[str]:
    """The words of `rebalancer`; those of `run` end with the master and the archive (empty: none)
    of Spark, so that earlier ones, which win over variables, have no effect.
    """
    if next((word for word in words if not word.startswith("-")), "") != "run":
        return [*words]
    environment = ["--set", f"job.environment={archive}"] if archive else []
    return [*words, "--master", master, *environment]


def _find_packages(archive: str) -> None:
    """Puts the packages of the archive first, as workers do. Without an archive, this Python has
    them. Raises SettingsError for an archive of another Python.
    """
    here = Path(UNPACKED).absolute()  # YARN and Kubernetes unpack it for the driver, too
    file = Path(_path(archive))
    if archive and file.is_file():
        _check_python(read_manifest(file).python, file)
    if here.is_dir():
        sys.path.insert(0, str(here))
    elif archive and file.is_file():
        target = _temporary("packages") / "site-packages"  # by this name our paths are found
        with tarfile.open(file) as packages:
            packages.extractall(target, filter="data")
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


def _check_python(wanted: str, archive: Path) -> None:
    if python_name() != f"python{wanted}":
        raise SettingsError(
            [
                f"{archive} has packages for Python {wanted}, and {sys.executable} is "
                f"{python_name()}: submit with --conf spark.pyspark.python=python{wanted}"
            ]
        )


def check_spark(version: str) -> None:
    """Ends the process for a Spark of another minor version, which has other classes."""
    requires = " ".join(metadata.requires("pulsar-rebalancer") or ())
    wanted = re.search(r"pyspark==(\d+\.\d+)([.\d]*)", requires)
    if wanted is not None and not version.startswith(f"{wanted[1]}."):
        _end(
            f"this spark-submit is Spark {version}, and the application needs "
            f"{wanted[1]}{wanted[2]}: use the spark-submit of that version"
        )


def _why_missing(archive: str) -> str:
    if not archive:
        return (
            f"this Python ({sys.executable}) has not the packages of the application: submit it "
            f"with --archives FILE#{UNPACKED}, as `rebalancer ship` prints it"
        )
    return (
        f"{_path(archive) or archive} is not a file on this machine, where the driver reads it: "
        "copy the application to every machine that may run the driver, under the same path"
    )


def _end(sentence: str) -> NoReturn:
    sys.exit(f"error: {sentence}")


def _path(archive: str) -> str:
    """The path of a local archive; empty for one that is elsewhere."""
    parts = urlsplit(archive)
    return unquote(parts.path) if parts.scheme in ("", "file", "local") else ""


def _temporary(name: str) -> Path:
    folder = tempfile.mkdtemp(prefix=f"rebalancer-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
