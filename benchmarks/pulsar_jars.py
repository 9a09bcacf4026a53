"""Pulsar's own broker classes with all they need, fetched once with Maven into the user's cache
folder.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

RELEASE = "4.2.4"
_FOLDER = f"pulsar-{RELEASE}-jars"
#: Written last: a folder without it was left half filled.
_COMPLETE = ".complete"
#: Without the import Maven would mix releases of jackson, log4j and ZooKeeper that Pulsar does not
#: ship together.
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar-rebalancer</groupId>
  <artifactId>pulsar-classes</artifactId>
  <version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId><version>{RELEASE}</version><type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-broker</artifactId><version>{RELEASE}</version>
  </dependency></dependencies>
</project>
"""


class NoPulsarError(Exception):
    """Pulsar's classes cannot be run here; the text says what is missing."""


Fetch = Callable[[Path], None]


def cache_folder(environment: Mapping[str, str]) -> Path:
    """`~/.cache/pulsar-rebalancer`, or its place below XDG_CACHE_HOME."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pulsar-rebalancer"


def pulsar_jars(cache: Path, fetch: Fetch | None = None) -> Path:
    """The folder with the jars; filled by the first who asks while the others wait. Raises
    NoPulsarError.
    """
    folder = cache / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _COMPLETE).exists():
            (fetch or _with_maven)(folder)
            (folder / _COMPLETE).touch()
    return folder


def _with_maven(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoPulsarError(
            f"Maven (`mvn`) is needed to fetch Pulsar's jars into {folder}, and is not on the "
            "PATH: install it and try again"
        )
    with tempfile.TemporaryDirectory(prefix="rebalancer-jars-") as scratch:
        pom = Path(scratch, "pom.xml")
        pom.write_text(_POM, encoding="utf-8")
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    if done.returncode:
        said = next(
            (line for line in done.stdout.splitlines() if line.startswith("[ERROR]")),
            f"exit code {done.returncode}",
        )
        raise NoPulsarError(
            f"Maven could not fetch Pulsar {RELEASE}: {said[:500]}. It needs Maven Central; "
            "check the network and try again"
        )
