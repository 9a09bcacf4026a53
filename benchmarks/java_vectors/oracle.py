"""The Java program beside this file, compiled against Pulsar's jars and fed with cases."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from benchmarks.pulsar_jars import NoPulsarError, cache_folder, pulsar_jars

_SOURCES = Path(__file__).parent


@dataclass(frozen=True)
class Oracle:
    """Pulsar's classes, ready to be asked."""

    class_path: str
    java: str

    @classmethod
    def ready(cls) -> "Oracle":
        """Fetches the jars and compiles the program where that was not done before. Raises
        NoPulsarError.
        """
        home = os.environ.get("JAVA_HOME")
        places = os.pathsep.join(
            ([f"{home}/bin"] if home else []) + [os.environ.get("PATH", os.defpath)]
        )
        java, javac = shutil.which("java", path=places), shutil.which("javac", path=places)
        if java is None or javac is None:
            raise NoPulsarError(
                "A JDK of Java 17 or newer is needed to ask Pulsar's classes, and there is no "
                "`javac` in JAVA_HOME or on the PATH: "
                "install one (Debian: openjdk-17-jdk-headless) and try again."
            )
        cache = cache_folder(os.environ)
        jars = f"{pulsar_jars(cache)}/*"
        return cls(f"{_compiled(javac, jars, cache)}{os.pathsep}{jars}", java)

    def ask(self, cases: Iterable[bytes], answered: Path) -> None:
        """Writes the cases with Java's answers to a file. Raises NoPulsarError when the program
        fails.
        """
        with answered.open("wb") as answers, tempfile.TemporaryFile() as given:
            given.writelines(cases)
            given.seek(0)
            command = [self.java, "-Xmx1g", "-XX:+UseSerialGC", "-cp", self.class_path, "Oracle"]
            done = subprocess.run(
                command, stdin=given, stdout=answers, stderr=subprocess.PIPE, check=False
            )
        if done.returncode:
            raise NoPulsarError(
                f"the Java program failed: {done.stderr.decode(errors='replace')[:2000]}"
            )


def _compiled(javac: str, jars: str, cache: Path) -> Path:
    """The folder of the classes, named by what they were compiled from."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = blake2b(b"".join(source.read_bytes() for source in sources), digest_size=8).hexdigest()
    folder = cache / f"oracle-{digest}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="oracle-", dir=cache) as scratch:
            classes = Path(scratch, "classes")
            command = [
                javac,
                "-proc:none",
                "-nowarn",
                "-cp",
                jars,
                "-d",
                str(classes),
                *map(str, sources),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NoPulsarError(f"javac failed: {done.stderr[:2000]}")
            try:
                classes.rename(folder)
            except OSError:
                if not folder.exists():  # otherwise somebody else was faster
                    raise
    return folder
