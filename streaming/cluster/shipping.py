"""Packages for Spark's workers and for drivers of `spark-submit`: ours and all that they depend on,
in one archive; files and command lines of the job as an application of Spark. Imports no Spark.

The archive contains no Python: `rebalancer ship` prints the one that is needed, because compiled
packages fit one minor version only. Rules for such archives:
https://spark.apache.org/docs/4.2.0/api/python/user_guide/python_packaging.html
"""

import io
import json
import re
import shutil
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from strategies.errors import RebalancerError, SettingsError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.cluster import spark_submit_start
from streaming.cluster.spark_submit_start import MANIFEST
from streaming.jars.locked_jars import connector_files
from streaming.settings import JobSettings, uses_kafka

#: Our packages that workers import.
WORKER_PACKAGES = ("sinks", "strategies", "streaming")
PACKAGES = ("pulsar_rebalancer", *WORKER_PACKAGES)
#: The folder of our packages.
PROJECT = Path(__file__).resolve().parents[2]
_PRODUCT = "pulsar-rebalancer"
#: Comes with Spark itself and must match the running version.
_SPARKS_OWN = frozenset({"pyspark", "py4j"})
_SUFFIX = ".tar.gz"
_MOST_MANIFEST_BYTES = 2**20
#: The highest level takes four times as long and saves a tenth more.
_LEVEL = 3
_PROGRAM = Path(spark_submit_start.__file__)
LAUNCHER = "rebalancer-submit.py"
#: The launcher under a name that a standalone master accepts in cluster mode.
STANDALONE = "pulsar-rebalancer.jar"
ENVIRONMENT = "environment.tar.gz"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of an archive, or of this Python. `python`: major.minor; `packages`: name →
    version.
    """

    python: str
    platform: str
    packages: Mapping[str, str]


def write_environment(target: Path) -> Manifest:
    """Writes our packages and all installed dependencies of them to a .tar.gz; an interrupted write
    leaves no file.

    Raises SettingsError for another suffix, which Spark does not unpack, and for an unwritable
    target.
    """
    if not target.name.endswith(_SUFFIX):
        raise SettingsError(
            [
                f"{target}: the archive's name must end with {_SUFFIX}, otherwise Spark does "
                "not unpack it"
            ]
        )
    wanted = needed_distributions()
    manifest = _manifest(wanted)
    part = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(part, "w:gz", compresslevel=_LEVEL) as archive:
            _add(archive, MANIFEST, json.dumps({"v": 1, **asdict(manifest)}, indent=2))
            _add_product(archive)
            for path, name in sorted(packed_files(wanted.values()), key=lambda pair: pair[1]):
                archive.add(path, name, recursive=False, filter=_without_owner)
        part.replace(target)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise SettingsError(
            [f"{target} cannot be written ({error.strerror}); name another path"]
        ) from error
    return manifest


def check_environment(file: Path) -> None:
    """Compares an archive with the packages of this Python. Raises SettingsError with the
    differences and the next step.
    """
    packed, installed = read_manifest(file), _manifest(needed_distributions())
    differing = (
        [f"Python {packed.python}, here {installed.python}"]
        if packed.python != installed.python
        else []
    )
    differing += [
        f"{name} {packed.packages.get(name, 'not at all')}, here {version}"
        for name, version in installed.packages.items()
        if packed.packages.get(name) != version
    ]
    if differing:
        more = f", and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise SettingsError(
            [
                f"job.environment: {file} contains {'; '.join(differing[:3])}{more}: make it "
                f"again with: rebalancer ship {file}"
            ]
        )


def read_manifest(file: Path) -> Manifest:
    """Returns the manifest of an archive. Raises SettingsError for a file that `rebalancer ship`
    did not write.
    """
    try:
        with tarfile.open(file, "r:gz") as archive:
            first = archive.next()
            content = (
                archive.extractfile(first) if first is not None and first.name == MANIFEST else None
            )
            tree = json.loads(content.read(_MOST_MANIFEST_BYTES)) if content is not None else {}
        return Manifest(str(tree["python"]), str(tree["platform"]), dict(tree["packages"]))
    except FileNotFoundError as error:
        raise SettingsError(
            [f"job.environment: {file} does not exist; make it with: rebalancer ship {file}"]
        ) from error
    except (OSError, EOFError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            [
                f"job.environment: {file} is not an archive of this program; make one with: "
                f"rebalancer ship {file}"
            ]
        ) from error


def python_name() -> str:
    """Returns the name of Python on workers that get their packages from an archive."""
    return f"python{_python()}"


def needed_distributions() -> dict[str, metadata.Distribution]:
    """Returns the job's dependencies by name, without our package and Spark. Requirements for other
    platforms are not installed here.
    """
    dependencies: dict[str, metadata.Distribution] = {}
    waiting = _requirements(metadata.distribution(_PRODUCT), "spark")
    while waiting:
        name = waiting.pop()
        if name in dependencies or name in _SPARKS_OWN:
            continue
        try:
            dependencies[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        waiting += _requirements(dependencies[name])
    return dict(sorted(dependencies.items()))


def _requirements(distribution: metadata.Distribution, extra: str = "") -> list[str]:
    """Names of the requirements, unconditional or of `extra`."""
    names = []
    for requirement in distribution.requires or ():
        name, wanted = (
            re.match(r"[\w.-]+", requirement),
            re.search(r"""extra\s*==\s*["']([^"']+)""", requirement),
        )
        if name is not None and (wanted is None or wanted[1] == extra):
            names.append(re.sub(r"[-_.]+", "-", name[0]).lower())
    return names


def packed_files(distributions: Iterable[metadata.Distribution]) -> Iterator[tuple[Path, str]]:
    """Yields each installed file and its name in the archive, without commands, which are in other
    folders, and compiled bytecode.
    """
    for distribution in distributions:
        listed = distribution.files
        if not listed:
            name = distribution.metadata["Name"]
            raise RebalancerError(
                f"{name} does not list its files and cannot be packed: install it with pip, "
                "in a virtual environment"
            )
        for file in listed:
            if ".." not in file.parts and file.suffix != ".pyc" and not file.is_absolute():
                path = Path(str(distribution.locate_file(file)))
                if path.exists():  # images leave out tests and licenses of packages
                    yield path, file.as_posix()


def _manifest(distributions: Mapping[str, metadata.Distribution]) -> Manifest:
    return Manifest(
        _python(),
        sysconfig.get_platform(),
        {name: distribution.version for name, distribution in distributions.items()},
    )


def _add_product(archive: tarfile.TarFile) -> None:
    """Adds our packages and what names their version and their command. They are those beside this
    module, which an editable installation does not list.
    """
    product = metadata.distribution(_PRODUCT)
    for name in ("METADATA", "entry_points.txt"):
        described = f"pulsar_rebalancer-{product.version}.dist-info/{name}"
        _add(archive, described, product.read_text(name) or "")
    for package in PACKAGES:
        archive.add(PROJECT / package, package, filter=_without_owner)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.endswith("__pycache__"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o444
    return entry


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Application:
    """Files of an application in a folder. `jars`: of Spark's Kafka connector, if the job uses
    it.
    """

    folder: Path
    jars: tuple[str, ...]

    def files(self) -> list[Path]:
        """Returns all files."""
        names = (LAUNCHER, STANDALONE, ENVIRONMENT, *(f"jars/{jar}" for jar in self.jars))
        return [self.folder / name for name in names]

    def uri(self, name: str) -> str:
        """Returns a file as Spark reads it in lists: blanks, # and % are escaped."""
        return (self.folder / name).as_uri()


def write_application(folder: Path, job: JobSettings) -> Application:
    """Writes launcher, packages and, for Kafka topics, the jars of the connector to a folder.

    Raises SettingsError for a folder that cannot be written and for a relative checkpoint,
    JarsMissing.
    """
    checkpoint_folder(job)
    if not Path(job.checkpoint.removeprefix("file://")).is_absolute():
        raise SettingsError(
            [
                f"job.checkpoint: {job.checkpoint!r} is relative to the folder in which the driver "
                "starts, which is another one at each start in cluster mode: write an absolute path"
            ]
        )
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


def client_words(application: Application, job: JobSettings, arguments: Sequence[str]) -> list[str]:
    """Returns the command line for client mode. `arguments`: of `rebalancer`."""
    return ["spark-submit", *_options(application, job), application.uri(LAUNCHER), *arguments]


def cluster_words(
    application: Application, job: JobSettings, arguments: Sequence[str]
) -> list[str]:
    """Returns the command line for cluster mode on a standalone master, which accepts only Java
    programs: one of Spark's own starts Python.
    """
    runner = ["--class", "org.apache.spark.deploy.PythonRunner"]
    jar = [application.uri(STANDALONE), STANDALONE, ""]
    options = ["--deploy-mode", "cluster", *_options(application, job), *runner]
    return ["spark-submit", *options, *jar, *arguments]


def _options(application: Application, job: JobSettings) -> Iterator[str]:
    yield from ("--master", job.master)
    yield from ("--driver-memory", job.driver_memory)
    yield from ("--archives", f"{application.uri(ENVIRONMENT)}#{spark_submit_start.UNPACKED}")
    yield from ("--conf", f"spark.pyspark.python={python_name()}")
    if application.jars:
        yield from ("--jars", ",".join(application.uri(f"jars/{jar}") for jar in application.jars))
