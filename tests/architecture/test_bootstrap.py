"""`make setup` finds Java and Python before it downloads anything, and says how to get what is
missing.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT, run

SHOW_CHOICE = 'source scripts/java.sh && echo "JAVA_HOME=${JAVA_HOME:-}"'
#: What the scripts use of a system.
PROGRAMS = ("bash", "command", "dirname", "head", "sed", "uname", "cat", "touch")


@pytest.mark.parametrize(
    ("found", "home", "chosen"),
    [
        ({"bin": "17.0.15"}, None, ""),
        ({"bin": "11.0.2", "jvm/java-21/bin": "21-ea"}, None, "/jvm/java-21"),
        ({"old/bin": "1.8.0_402", "bin": "17.0.15"}, "/old", "/"),
    ],
    ids=["the path's", "packages installed a newer one", "an old JAVA_HOME gives way to the path"],
)
def test_the_java_that_is_new_enough_is_taken(
    tmp_path: Path, found: dict[str, str], home: str | None, chosen: str
) -> None:
    for folder, version in found.items():
        java(tmp_path / folder, version)
    variables = {} if home is None else {"JAVA_HOME": f"{tmp_path}{home}"}
    wanted = f"{tmp_path}{chosen}".rstrip("/") if chosen else ""
    assert shell(tmp_path, SHOW_CHOICE, **variables).stdout == f"JAVA_HOME={wanted}\n"


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


def test_a_user_gets_the_packages_of_the_product_and_the_command(tmp_path: Path) -> None:
    ran = commands_of_an_installation(tmp_path, "product")
    assert [line for line in ran if "scripts.packages" in line] == [
        "-m scripts.packages install product.lock the product"
    ]
    assert [line for line in ran if line.endswith("--no-build-isolation --editable .")] != []
    assert "-m compileall -q pulsar_rebalancer sinks strategies streaming" in ran
    assert (tmp_path / "venv/.product").exists()
    assert not (tmp_path / "venv/.stamp").exists()


def test_developers_get_theirs_on_top(tmp_path: Path) -> None:
    ran = commands_of_an_installation(tmp_path, "dev")
    assert ran == ["-m scripts.packages install dev.lock developers, beside the product"]
    assert (tmp_path / "venv/.stamp").exists()


def test_a_failed_installation_is_not_ready(tmp_path: Path) -> None:
    java(tmp_path / "bin", "17.0.15")
    program(tmp_path / "venv/bin/python", '[ "$1" = -c ]')
    answer = shell(tmp_path, f"scripts/bootstrap.sh {tmp_path}/venv product")
    assert answer.returncode == 1
    assert not (tmp_path / "venv/.product").exists()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("target", "contents"),
    [
        ("setup", ["product"]),
        ("demo", ["product"]),
        ("check", ["product", "dev"]),
        ("fetch-test", ["empty", "product", "dev"]),
    ],
)
def test_a_target_installs_what_it_needs(tmp_path: Path, target: str, contents: list[str]) -> None:
    planned = run("make", "--dry-run", f"VENV={tmp_path}/venv", target).stdout
    found = re.findall(r"scripts/bootstrap.sh \S+ (\w+)", planned)
    assert list(dict.fromkeys(found)) == contents  # a dry run repeats it in each make of a make


@pytest.mark.parametrize("target", ["test", "test-long"])
def test_tests_begin_with_what_they_fetch(target: str) -> None:
    planned = run("make", "--dry-run", target).stdout
    commands = ("-m scripts.fetch list", "-m scripts.fetch get", "-m pytest")
    places = [planned.index(command) for command in commands]
    assert places == sorted(places)


def commands_of_an_installation(root: Path, content: str) -> list[str]:
    """What the Python of an environment that exists is asked to run."""
    java(root / "bin", "17.0.15")
    program(root / "venv/bin/python", f'[ "$1" = -c ] || echo "$*" >> {root}/ran')
    answer = shell(root, f"scripts/bootstrap.sh {root}/venv {content}")
    assert answer.returncode == 0, answer.stderr
    return (root / "ran").read_text("utf-8").splitlines()


def java(folder: Path, version: str) -> None:
    """A Java that knows its version and nothing else."""
    program(folder / "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(0o755)


def shell(root: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `script` in the project's folder on the system of `root`."""
    environment = {**system(root), **variables}
    command = [str(root / "bin/bash"), "-eu", "-o", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def system(root: Path) -> dict[str, str]:
    """The environment of a system with the programs in `root`/bin and the bare necessities."""
    folder = root / "bin"
    folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        found = shutil.which(name)
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found)
    return {"PATH": str(folder), "JAVA_FOLDERS": str(root / "jvm")}
