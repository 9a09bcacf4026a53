"""The job as an application of Spark: its files, and the command lines of `spark-submit`.

Imports no Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from strategies.errors import SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.cluster.shipping import (
    APPLICATION,
    PACKAGES,
    UNPACKED,
    python_name,
    write_environment,
    write_zip,
)
from streaming.jars.connector import connector_files
from streaming.settings import JobSettings, uses_kafka

_ZIP, _JAR = APPLICATION
_PROJECT = Path(__file__).resolve().parents[2]
_PRODUCT = "pulsar-rebalancer"
#: Runs the application, from the zip that spark-submit gets beside it.
_START = '''"""Starts pulsar-rebalancer in a process of spark-submit; --py-files names the code."""

from pulsar_rebalancer.cli.spark_launcher import main

if __name__ == "__main__":
    main()
'''


@dataclass(frozen=True, slots=True)
class Application:
    """Files of an application in a folder. `jars`: of Spark's Kafka connector, if the job uses
    it.
    """

    folder: Path
    jars: tuple[str, ...]
    launcher: str = "rebalancer-submit.py"
    code: str = _ZIP
    standalone: str = _JAR
    environment: str = "environment.tar.gz"

    def files(self) -> list[Path]:
        """All files."""
        named = (self.launcher, self.code, self.standalone, self.environment)
        return [self.folder / name for name in (*named, *(f"jars/{jar}" for jar in self.jars))]

    def uri(self, name: str) -> str:
        """A file as Spark reads it in lists: blanks, # and % are escaped."""
        return (self.folder / name).as_uri()


def write_application(folder: Path, job: JobSettings) -> Application:
    """Writes launcher, code, packages and, for Kafka topics, the jars of the connector to a folder.

    Raises SettingsError for a folder that cannot be written and for a relative checkpoint,
    JarsMissing.
    """
    _check_checkpoint(job)
    jars = connector_files(job.jars) if uses_kafka(job.connections.topics) else []
    made = Application(folder.absolute(), tuple(jar.name for jar in jars))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / made.launcher).write_text(_START, "utf-8")
        _write_code(folder / made.code)
        shutil.copyfile(folder / made.code, folder / made.standalone)
        if jars:
            (folder / "jars").mkdir(exist_ok=True)
        for jar in jars:
            shutil.copyfile(jar, folder / "jars" / jar.name)
    except OSError as error:
        raise SettingsError(
            [f"{folder} cannot be written ({error.strerror}); name another folder"]
        ) from error
    write_environment(folder / made.environment)
    return made


def client_words(made: Application, job: JobSettings, arguments: Sequence[str]) -> list[str]:
    """The command line for client mode. `arguments`: of `rebalancer`."""
    code, launcher = (made.uri(name) for name in (made.code, made.launcher))
    return ["spark-submit", *_options(made, job), "--py-files", code, launcher, *arguments]


def cluster_words(made: Application, job: JobSettings, arguments: Sequence[str]) -> list[str]:
    """The command line for cluster mode on a standalone master, which accepts only Java programs:
    one of Spark's own starts Python.
    """
    runner = ["--class", "org.apache.spark.deploy.PythonRunner"]
    jar = [made.uri(made.standalone), made.standalone, ""]
    options = ["--deploy-mode", "cluster", *_options(made, job), *runner]
    return ["spark-submit", *options, *jar, *arguments]


def _options(made: Application, job: JobSettings) -> Iterator[str]:
    yield from ("--master", job.master)
    yield from ("--driver-memory", job.driver_memory)
    yield from ("--archives", f"{made.uri(made.environment)}#{UNPACKED}")
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


def _write_code(target: Path) -> None:
    """The zip that Python can also run itself, with the description of the installed version."""
    described = metadata.distribution(_PRODUCT).read_text("METADATA") or ""
    version = metadata.version(_PRODUCT)
    more = {
        "__main__.py": _START,
        f"pulsar_rebalancer-{version}.dist-info/METADATA": described,
    }
    write_zip(target, _PROJECT, PACKAGES, more)
