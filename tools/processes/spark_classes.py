"""A class-data archive of the classes that the job uses of Spark: a Java that starts with it needs
half the CPU time until the first micro-batch.

`python -m tools.processes.spark_classes` makes it, once for each virtual environment and Java: an
archive fits the jars of one folder only.
"""

import hashlib
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from tools.servers.quick_java import QUICK_JAVA

#: The variable with Java's options.
JAVA_OPTIONS = "JDK_JAVA_OPTIONS"


def short_java() -> str:
    """Value of JAVA_OPTIONS for a Spark that lives a minute or two; with the archive, if there is
    one.
    """
    archive = _archive()
    return _options(f"-XX:SharedArchiveFile={archive}" if archive.exists() else "")


def _options(more: str) -> str:
    return " ".join([os.environ.get(JAVA_OPTIONS, ""), *QUICK_JAVA, more]).strip()


@cache
def _archive() -> Path:
    from tools.servers.jvm import java, java_version

    key = hashlib.sha256(java_version(java()).encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-classes-{key}.jsa"


def _make(kept: Path) -> None:
    """From the classes of a job that decides a recording."""
    from tools.processes.real_job import RealJob, recording

    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        archive = Path(folder) / kept.name
        java = {JAVA_OPTIONS: _options(f"-XX:ArchiveClassesAtExit={archive}")}
        with RealJob(Path(folder) / "job", environment=java) as job:
            job.publish(recording("modular-broker-joins"))
            job.drain()
        archive.replace(kept)


if __name__ == "__main__" and not _archive().exists():
    print("Making an archive of Spark's classes, so that each later start is quicker", flush=True)
    _make(_archive())
