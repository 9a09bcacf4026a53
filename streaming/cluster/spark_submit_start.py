"""The program that `spark-submit` starts: makes the packages of the application importable, then
does what `rebalancer` does.

`rebalancer ship --application` copies this file. Until the archive of packages is on the path, it
imports only Python itself and Spark. Spark's Java process runs before it.
"""

import atexit
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Folder of the unpacked archive of packages, in a working directory.
UNPACKED = "rebalancer-environment"
#: In the archive: its Python, its platform, and the versions of its packages.
MANIFEST = "rebalancer-environment.json"
_UNREADABLE = (OSError, EOFError, tarfile.TarError, zlib.error, ValueError, KeyError)


def main() -> None:
    """Runs `rebalancer` with the arguments of the application."""
    if not is_submitted():
        sys.exit(
            "This is an application of Spark: start it with spark-submit, or run the program "
            "itself: rebalancer run"
        )
    properties = connect().java.lang.System
    archive = shipped_archive(properties.getProperty("spark.archives") or "")
    place = _path(archive) or archive
    try:
        _find_packages(archive, Path(place))
    except _UNREADABLE as error:
        sys.exit(f"error: {place} cannot be unpacked into {tempfile.gettempdir()}: {error}")
    try:
        _check_spark()
        (program,) = metadata.entry_points(group="console_scripts", name="rebalancer")
        run = program.load()
    except (ImportError, ValueError) as error:
        sys.exit(f"error: {error}: {_why_missing(place)}")
    master = properties.getProperty("spark.master")
    sys.argv[1:] = with_those_of_spark(sys.argv[1:], master, place)
    run()


def is_submitted() -> bool:
    """True if `spark-submit` started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def connect() -> Any:
    """Connects to the Java process that started this one; returns its view of Java's classes."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
    return SparkContext._jvm


def shipped_archive(archives: str) -> str:
    """Returns the archive of packages among `archives` (spark.archives), without its folder's name;
    empty if there is none.
    """
    for archive in archives.split(","):
        place, _, folder = archive.partition("#")
        if folder == UNPACKED:
            return place
    return ""


def with_those_of_spark(words: Sequence[str], master: str, archive: str) -> list[str]:
    """Returns the words of `rebalancer`; those of `run` end with the master and the archive (empty:
    none) of Spark, so that all others have no effect.
    """
    if next((word for word in words if not word.startswith("-")), "") != "run":
        return [*words]
    own = ["--master", master]
    if archive:
        own += ["--set", f"job.environment={archive}"]
    return [*words, *own]


def _find_packages(archive: str, file: Path) -> None:
    """Puts the packages of the archive first, as workers do. Without an archive, this Python has
    them.
    """
    folder = Path(UNPACKED).absolute()  # YARN and Kubernetes unpack it for the driver, too
    if archive and file.is_file() and not folder.is_dir():
        temporary = tempfile.mkdtemp(prefix="rebalancer-packages-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        folder = Path(temporary) / "site-packages"  # by this name our paths are found
        with tarfile.open(file) as packages:
            packages.extractall(folder, filter="data")
    if folder.is_dir():
        _check_python(json.loads((folder / MANIFEST).read_bytes())["python"], file)
        sys.path.insert(0, str(folder))


def _check_python(wanted: str, archive: Path) -> None:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if wanted != ours:
        sys.exit(
            f"error: {archive} has packages for Python {wanted}, and {sys.executable} is "
            f"python{ours}: submit with --conf spark.pyspark.python=python{wanted}"
        )


def _check_spark() -> None:
    """Ends the process for a Spark of another minor version, which has other classes."""
    from pyspark import __version__ as version

    requires = " ".join(metadata.requires("pulsar-rebalancer") or ())
    wanted = re.search(r"pyspark==(\d+\.\d+)([.\d]*)", requires)
    if wanted is not None and not version.startswith(f"{wanted[1]}."):
        sys.exit(
            f"error: this spark-submit is Spark {version}, and the application needs "
            f"{wanted[1]}{wanted[2]}: use the spark-submit of that version"
        )


def _why_missing(archive: str) -> str:
    if not archive:
        return (
            f"this Python ({sys.executable}) has not the packages of the application: submit it "
            f"with --archives FILE#{UNPACKED}, as `rebalancer ship` prints it"
        )
    return (
        f"{archive} is not a file on this machine, where the driver reads it: copy the application "
        "to every machine that may run the driver, under the same path"
    )


def _path(archive: str) -> str:
    """Returns the path of a local archive; empty for one that is elsewhere."""
    parts = urlsplit(archive)
    if parts.scheme not in ("", "file", "local"):
        return ""
    return unquote(parts.path)


if __name__ == "__main__":
    main()
