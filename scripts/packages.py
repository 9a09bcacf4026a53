"""Installs the packages of a lock into the environment of this Python, with plain lines that say
what and how far: python -m scripts.packages install product.lock "the product".

Standard library only: it runs before anything is installed. scripts/lock.sh measures the sizes:
python -m scripts.packages measure DOWNLOADED INSTALLED > requirements/sizes.txt.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from scripts.progress import reporting, say

REQUIREMENTS = Path(__file__).parents[1] / "requirements"
SIZES = REQUIREMENTS / "sizes.txt"
#: A lock is complete, so pip has nothing to resolve. Python compiles a module when it is first
#: imported; to compile all of them takes longer than to unpack them.
INSTALL = ("install", "--require-hashes", "--no-deps", "--no-compile", "--progress-bar", "off")


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a package: the file to download, and installed."""

    version: str
    download: int
    disk: int


def install(lock: str, purpose: str) -> int:
    """Exit code of pip."""
    wanted = missing(lock)
    if not wanted:
        return 0
    say(f"Installing {len(wanted)} packages for {purpose}: {cost(wanted)}")
    with tempfile.TemporaryDirectory(prefix="rebalancer-setup-") as scratch:
        run = Installation(lock, wanted, Path(scratch))
        with reporting(run.progress):
            code = run.install()
    if code:
        say("The packages could not be installed: check the network, then run make again.")
    return code


class Installation:
    """One run of pip, and how far it is."""

    def __init__(self, lock: str, wanted: Iterable[str], scratch: Path) -> None:
        """`scratch`: the folder into which pip downloads."""
        self._lock, self._wanted, self._scratch = lock, tuple(wanted), scratch
        self._sizes = sizes()
        self._collected: list[str] = []
        self._file = ""
        self._unpacking = False

    def install(self) -> int:
        """Exit code of pip, whose errors go to standard error."""
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", *INSTALL)
        with subprocess.Popen(
            [*pip, "-r", str(REQUIREMENTS / self._lock)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(self._scratch)},
        ) as process:
            for line in process.stdout or ():
                self.follow(line.strip())
        return process.returncode

    def follow(self, line: str) -> None:
        """Takes a line of pip."""
        if found := re.match(r"Collecting ([\w.-]+)==", line):
            self._collected.append(normalised(found[1]))
            self._file = ""
        elif found := re.match(r"(?:Downloading|Using cached) (\S+)", line):
            self._file = found[1].rpartition("/")[2]
        elif line.startswith("Installing collected packages"):
            self._unpacking = True

    def progress(self) -> str:
        """How many packages and megabytes are here, and which file comes now."""
        count = len(self._wanted)
        if self._unpacking:
            return f"{count - len(missing(self._lock))} of {count} packages are unpacked"
        *here, _ = self._collected or [""]
        done = sum(self._sizes[name].download for name in here if name in self._sizes)
        return (
            f"{len(here)} of {count} packages are here, {(done + self._part()) / 1e6:.0f} MB; "
            f"next: {self._file or 'an answer of the package index'}"
        )

    def _part(self) -> int:
        """Bytes of the file that pip downloads now."""
        found = self._scratch.glob(f"*/{self._file}") if self._file else ()
        return sum(file.stat().st_size for file in found)


def missing(lock: str) -> list[str]:
    """Packages of a lock that this environment does not have in the locked version."""
    folder = Path(sysconfig.get_path("purelib"))
    here = {
        normalised(info.stem.rpartition("-")[0]): info.stem.rpartition("-")[2]
        for info in folder.glob("*.dist-info")
    }
    return [name for name, version in locked(lock).items() if here.get(name) != version]


def locked(lock: str) -> dict[str, str]:
    """Package → version of a lock, without packages for Windows only."""
    return {
        found[1]: found[2]
        for line in (REQUIREMENTS / lock).read_text("utf-8").splitlines()
        if (found := re.match(r"([a-z0-9-]+)==(\S+)", line)) and "== 'win32'" not in line
    }


def cost(names: Iterable[str]) -> str:
    """What these packages take, as measured when the lock was made."""
    chosen = set(names)
    known = [size for name, size in sizes().items() if name in chosen]
    return (
        f"{sum(one.download for one in known) / 1e6:.0f} MB to download unless pip's cache has "
        f"them, {sum(one.disk for one in known) / 1e6:.0f} MB on disk"
    )


def sizes() -> dict[str, Size]:
    """Package → its size, from requirements/sizes.txt."""
    lines = SIZES.read_text("utf-8").splitlines()
    words = [line.split() for line in lines if not line.startswith("#")]
    return {name: Size(version, int(there), int(here)) for name, version, there, here in words}


def measure(downloaded: Path, installed: Path) -> Iterator[str]:
    """The lines of requirements/sizes.txt, from a folder of files and one of installed packages."""
    yield "# made by make lock: package, version, bytes to download, bytes on disk without bytecode"
    files = {normalised(file.name): file.stat().st_size for file in downloaded.iterdir()}
    for one in sorted(distributions(path=[str(installed)]), key=lambda one: one.name.lower()):
        name = normalised(one.name)
        download = sum(
            size
            for file, size in files.items()
            if file.startswith(normalised(f"{one.name}-{one.version}"))
        )
        # Rounded: scripts contain the path of their Python, which is another each time.
        disk = -(sum(file.size or 0 for file in one.files or ()) // -1000) * 1000
        yield f"{name} {one.version} {download} {disk}"


def normalised(name: str) -> str:
    """A package's name as locks write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(command: str, *words: str) -> int:
    """Exit code."""
    if command == "install":
        return install(*words)
    print(*measure(*map(Path, words)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
