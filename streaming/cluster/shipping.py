"""Packages for Spark's workers: our own as a zip, our dependencies as an archive. Imports no Spark.

Neither contains a Python: `rebalancer ship` prints the one that workers need, because compiled
packages fit one minor version only. Rules for such archives:
https://spark.apache.org/docs/4.2.0/api/python/user_guide/python_packaging.html
"""

from __future__ import annotations

import io
import json
import re
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from strategies.errors import RebalancerError, SettingsError

#: Our packages that workers import.
SHIPPED = ("sinks", "strategies", "streaming")
#: All our packages, of which the application of `spark-submit` consists.
PACKAGES = ("pulsar_rebalancer", *SHIPPED)
#: Names of the application's zip. A standalone master accepts jars only.
APPLICATION = ("pulsar-rebalancer.zip", "pulsar-rebalancer.jar")
#: Folder of the unpacked archive, in a worker's working directory.
UNPACKED = "rebalancer-environment"
_PRODUCT = "pulsar-rebalancer"
#: Comes with Spark itself and must match the running version.
_SPARKS_OWN = frozenset({"pyspark", "py4j"})
_MANIFEST = "rebalancer-environment.json"
_SUFFIX = ".tar.gz"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_MOST_MANIFEST_BYTES = 2**20
#: The highest level takes four times as long and saves a tenth more.
_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of an archive, or of this Python. `python`: major.minor; `packages`: name →
    version.
    """

    python: str
    platform: str
    packages: Mapping[str, str]


def write_zip(
    target: Path, root: Path, packages: Iterable[str], texts: Mapping[str, str] = {}
) -> None:
    """Writes packages below `root` to a zip, sorted by name and without timestamps: equal sources
    give equal bytes. `texts`: name → content of files that come after them.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in sorted(packages):
            for file in sorted(
                file
                for file in (root / package).rglob("*")
                if file.is_file() and file.suffix != ".pyc"
            ):
                entry = zipfile.ZipInfo(file.relative_to(root).as_posix(), _EARLIEST)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _EARLIEST), text)


def write_environment(target: Path) -> Manifest:
    """Writes all installed dependencies of ours to a .tar.gz; an interrupted write leaves no file.

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
            _add_manifest(archive, manifest)
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


def archive_here(named: str) -> Path | None:
    """The file that a setting names; None for a remote URL or an empty setting."""
    parts = urlsplit(named)
    if not named or parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path) if parts.scheme else named).absolute()


def check_environment(file: Path) -> None:
    """Compares an archive with the packages of this Python. Raises SettingsError with the
    differences and the next step.
    """
    there, here = read_manifest(file), _manifest(needed_distributions())
    differing = (
        [f"Python {there.python}, here {here.python}"] if there.python != here.python else []
    )
    differing += [
        f"{name} {there.packages.get(name, 'not at all')}, here {version}"
        for name, version in here.packages.items()
        if there.packages.get(name) != version
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
    """The manifest of an archive. Raises SettingsError for a file that `rebalancer ship` did not
    write.
    """
    try:
        with tarfile.open(file, "r:gz") as archive:
            first = archive.next()
            content = (
                archive.extractfile(first)
                if first is not None and first.name == _MANIFEST
                else None
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
    """The name of Python on workers that get their packages from an archive."""
    return f"python{_python()}"


def needed_distributions() -> dict[str, metadata.Distribution]:
    """The job's dependencies by name, without our package and Spark. Requirements for other
    platforms are not installed here.
    """
    found: dict[str, metadata.Distribution] = {}
    waiting = _requirements(metadata.distribution(_PRODUCT), "spark")
    while waiting:
        name = waiting.pop()
        if name in found or name in _SPARKS_OWN:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        waiting += _requirements(found[name])
    return dict(sorted(found.items()))


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
    """Each installed file and its name in the archive; without commands, which are in other
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
        {name: one.version for name, one in distributions.items()},
    )


def _add_manifest(archive: tarfile.TarFile, manifest: Manifest) -> None:
    text = json.dumps({"v": 1, **asdict(manifest)}, indent=2).encode()
    entry = tarfile.TarInfo(_MANIFEST)
    entry.size, entry.mode = len(text), 0o644
    archive.addfile(entry, io.BytesIO(text))


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o444
    return entry


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
