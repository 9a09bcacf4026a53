"""`make setup` finds Java and Python before it downloads anything, and says how to get what is
missing.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT

SHOW_CHOICE = 'source scripts/java.sh && echo "JAVA_HOME=${JAVA_HOME:-}"'
#: What the scripts use of a system.
PROGRAMS = ("bash", "command", "dirname", "head", "sed", "uname", "cat")


def test_java_on_the_path_is_taken_as_it_is(tmp_path: Path) -> None:
    java(tmp_path / "bin", "17.0.15")
    assert shell(tmp_path, SHOW_CHOICE).stdout == "JAVA_HOME=\n"


def test_an_old_java_on_the_path_gives_way_to_a_newer_one_that_packages_installed(
    tmp_path: Path,
) -> None:
    java(tmp_path / "bin", "11.0.2")
    java(tmp_path / "jvm/java-21/bin", "21-ea")
    assert shell(tmp_path, SHOW_CHOICE).stdout == f"JAVA_HOME={tmp_path}/jvm/java-21\n"


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    java(tmp_path / "old/bin", "1.8.0_402")
    java(tmp_path / "bin", "17.0.15")
    assert (
        shell(tmp_path, SHOW_CHOICE, JAVA_HOME=str(tmp_path / "old")).stdout
        == f"JAVA_HOME={tmp_path}\n"
    )


@pytest.mark.parametrize(
    ("system", "manager", "advice"),
    [
        ("Linux", "apt-get", "sudo apt-get install openjdk-17-jre-headless"),
        ("Linux", "dnf", "sudo dnf install java-17-openjdk-headless"),
        ("Linux", "nothing-known", "package manager"),
        ("Darwin", "brew", "brew install openjdk@17"),
    ],
)
def test_without_java_the_advice_fits_the_system(
    tmp_path: Path, system: str, manager: str, advice: str
) -> None:
    program(tmp_path / "bin/uname", f"echo {system}")
    program(tmp_path / "bin" / manager, "true")

    answer = shell(tmp_path, "scripts/bootstrap.sh " + str(tmp_path / "venv"))

    assert answer.returncode == 1
    assert "Java 17 or newer" in answer.stderr
    assert advice in answer.stderr
    assert not (tmp_path / "venv").exists()


def test_an_old_python_is_refused_with_advice(tmp_path: Path) -> None:
    java(tmp_path / "bin", "17.0.15")
    program(tmp_path / "bin/python3", "exit 1")

    answer = shell(tmp_path, "scripts/bootstrap.sh " + str(tmp_path / "venv"))

    assert answer.returncode == 1
    assert "Python 3.11" in answer.stderr
    assert not (tmp_path / "venv").exists()


def java(folder: Path, version: str) -> None:
    """A Java that knows its version and nothing else."""
    program(folder / "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(0o755)


def shell(system: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `script` in the project's folder on a system whose programs are those in `system`/bin
    and the bare necessities.
    """
    folder = system / "bin"
    folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        found = shutil.which(name)
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found)
    environment = {"PATH": str(folder), "JAVA_FOLDERS": str(system / "jvm"), **variables}
    command = [str(folder / "bash"), "-eu", "-o", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
