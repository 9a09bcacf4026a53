"""A class-data archive of the classes that the job uses of Spark: a Java that starts with it needs
half the CPU time until the first micro-batch.

`python -m tools.processes.spark_classes` makes it, once for each virtual environment and Java: an
archive fits the jars of one folder only.
"""

import tempfile
from pathlib import Path

from tools.processes.real_job import RealJob, recording
from tools.servers.quick_java import JAVA_OPTIONS, quick_options, spark_classes


def _make(kept: Path) -> None:
    """From the classes of a job that decides a recording."""
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        archive = Path(folder) / kept.name
        java = {JAVA_OPTIONS: quick_options(f"-XX:ArchiveClassesAtExit={archive}")}
        with RealJob(Path(folder) / "job", environment=java) as job:
            job.publish(recording("modular-broker-joins"))
            job.drain()
        archive.replace(kept)


if __name__ == "__main__" and not spark_classes().exists():
    print("Making an archive of Spark's classes, so that each later start is quicker", flush=True)
    _make(spark_classes())
