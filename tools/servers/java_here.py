"""The Java of this machine, and the tools that belong to it."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def java() -> str:
    """JAVA_HOME's Java, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java") or "java"


def java_from(oldest: int) -> str | None:
    """The Java of `java()`, or, if it is older than `oldest`, the newest of the system's packages;
    None if all are older.
    """
    if _major_of(java()) >= oldest:
        return java()
    packaged = [str(path) for path in Path("/usr/lib/jvm").glob("*/bin/java")]
    newest = max(packaged, key=_major_of, default=None)
    return newest if newest is not None and _major_of(newest) >= oldest else None


@cache
def _major_of(java: str) -> int:
    """0 if it prints none."""
    found = re.search(r'version "(\d+)', java_version(java))
    return int(found[1]) if found else 0


def keytool(*arguments: str) -> None:
    """Java's own tool for keys and certificates."""
    subprocess.run(
        [java().removesuffix("java") + "keytool", *arguments], check=True, capture_output=True
    )


def compile_java(source: Path, class_path: Sequence[Path], into: Path, java: str) -> None:
    """By the compiler inside this Java; a Java without one cannot."""
    words = [
        "-proc:none",
        "-cp",
        os.pathsep.join(map(str, class_path)),
        "-d",
        str(into),
        str(source),
    ]
    done = subprocess.run(
        [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def has_compiler(java: str) -> bool:
    """Whether this Java is a JDK."""
    modules = subprocess.run(
        [java, "--list-modules"], capture_output=True, text=True, check=False
    ).stdout
    return "jdk.compiler@" in modules


@cache
def java_version(java: str) -> str:
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
