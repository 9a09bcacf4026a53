"""The job as an application of Spark: its files, and the command lines of `spark-submit`.

Imports no Spark.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strategies.errors import SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.cluster import spark_launcher
from streaming.cluster.shipping import python_name, write_environment
from streaming.jars.connector import connector_files
from streaming.settings import JobSettings, uses_kafka

_PROGRAM = Path(spark_launcher.__file__)
LAUNCHER = "rebalancer-submit.py"
#: The launcher under a name that a standalone master accepts in cluster mode.
STANDALONE = "pulsar-rebalancer.jar"
ENVIRONMENT = "environment.tar.gz"


@dataclass(frozen=True, slots=True)
class Application:
    """Files of an application in a folder. `jars`: of Spark's Kafka connector, if the job uses
    it.
    """

    folder: Path
    jars: tuple[str, ...]

    def files(self) -> list[Path]:
        """All files."""
        named = (LAUNCHER, STANDALONE, ENVIRONMENT, *(f"jars/{jar}" for jar in self.jars))
        return [self.folder / name for name in named]

    def uri(self, name: str) -> str:
        """A file as Spark reads it in lists: blanks, # and % are escaped."""
        return (self.folder / name).as_uri()


def write_application(folder: Path, job: JobSettings) -> Application:
    """Writes launcher, packages and, for Kafka topics, the jars of the connector to a folder.

    Raises SettingsError for a folder that cannot be written and for a relative checkpoint,
    JarsMissing.
    """
    _check_checkpoint(job)
    jars = connector_files(job.jars) if uses_kafka(job.connections.topics) else []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_PROGRAM, folder / LAUNCHER)
        with zipfile.ZipFile(folder / STANDALONE, "w", strict_timestamps=False) as archive:
            archive.write(_PROGRAM, "__main__.py")
        for jar in jars:
            (folder / "jars").mkdir(exist_ok=True)
            shutil.copyfile(jar, folder / "jars" / jar.name)
    except OSError as error:
        raise SettingsError(
            [f"{folder} cannot be written ({error.strerror}); name another folder"]
        ) from error
    write_environment(folder / ENVIRONMENT)
    return Application(folder.absolute(), tuple(jar.name for jar in jars))


def client_words(made: Application, job: JobSettings, arguments: Sequence[str]) -> list[str]:
    """The command line for client mode. `arguments`: of `rebalancer`."""
    return ["spark-submit", *_options(made, job), made.uri(LAUNCHER), *arguments]


def cluster_words(made: Application, job: JobSettings, arguments: Sequence[str]) -> list[str]:
    """The command line for cluster mode on a standalone master, which accepts only Java programs:
    one of Spark's own starts Python.
    """
    runner = ["--class", "org.apache.spark.deploy.PythonRunner"]
    jar = [made.uri(STANDALONE), STANDALONE, ""]
    options = ["--deploy-mode", "cluster", *_options(made, job), *runner]
    return ["spark-submit", *options, *jar, *arguments]


def _options(made: Application, job: JobSettings) -> Iterator[str]:
    yield from ("--master", job.master)
    yield from ("--driver-memory", job.driver_memory)
    yield from ("--archives", f"{made.uri(ENVIRONMENT)}#{spark_launcher.UNPACKED}")
    yield from ("--conf", f"spark.pyspark.python={python_name()}")
    if made.jars:
        yield from ("--jars", ",".join(made.uri(f"jars/{jar}") for jar in made.jars))


def _check_checkpoint(job: JobSettings) -> None:
    checkpoint_folder(job)
    if not Path(job.checkpoint.removeprefix("file://")).is_absolute():
        raise SettingsError(
            [
                f"job.checkpoint: {job.checkpoint!r} is relative to the folder in which the driver "
                "starts, which is another one at each start in cluster mode: write an absolute path"
            ]
        )
