"""What leaves the project is whole: the wheel, and the targets of make."""

import importlib.util
import re
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.image_tags import files, tagged
from strategies.settings import VERSION
from tests.architecture.command_line import ROOT, run, unknown_options
from tests.architecture.layers import PACKAGES
from tests.golden import conftest as golden

TARGETS = (
    "demo",
    "test",
    "check",
    "bench",
    "bench-decisions",
    "bench-java",
    "golden",
    "test-long",
    "clean",
    "setup",
)
BENCHMARKS = (
    ("bench", "benchmarks.rounds"),
    ("bench", "benchmarks.decisions"),
    ("bench-decisions", "benchmarks.decisions"),
    ("bench-java", "benchmarks.java_decisions"),
)


@pytest.mark.heavy
def test_the_wheel_holds_the_files_of_the_packages_and_no_others(tmp_path: Path) -> None:
    """Commands leave folders where they are called, with the addresses of a cluster in them."""
    source = sources_in(tmp_path)
    for name in (
        "rebalancer-demo/report.html",
        "rebalancer-watch/settings.toml",
        "rebalancer-watch/telemetry/first.json",
        "pulsar_rebalancer/rebalancer-demo/report.html",
        "sinks.old/position.py",
        "streaming_copy/__init__.py",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()

    held = zipfile.ZipFile(wheel_of(source, tmp_path)).namelist()

    assert {name for name in held if ".dist-info/" not in name} == files_of_packages(ROOT)


@pytest.mark.slow
def test_the_wheel_runs_the_demo_in_an_empty_environment_outside_the_clone(tmp_path: Path) -> None:
    """Installs everything from the package index, as an operator does."""
    wheel, environment = wheel_of(sources_in(tmp_path), tmp_path), tmp_path / "environment"
    installed = run(sys.executable, "-m", "venv", str(environment))
    assert installed.returncode == 0, installed.stdout
    python, empty = environment / "bin/python", tmp_path / "empty"
    empty.mkdir()
    before = top_level_names(environment)

    installed = run(
        str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel), folder=empty
    )
    assert installed.returncode == 0, installed.stdout
    assert top_level_names(environment) - before == set(PACKAGES)

    installed = run(str(python), "-m", "pip", "install", "--quiet", f"{wheel}[spark]", folder=empty)
    assert installed.returncode == 0, installed.stdout
    spark = {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": ""}
    shown = run(str(environment / "bin/rebalancer"), "demo", folder=empty, environment=spark)
    assert shown.returncode == 0, shown.stdout
    assert "points" in shown.stdout


def sources_in(folder: Path) -> Path:
    """A copy of the packages: a build leaves files beside its sources."""
    source = folder / "source"
    source.mkdir()
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / file, source)
    return source


def wheel_of(source: Path, folder: Path) -> Path:
    """The wheel of these sources."""
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    built = run(*pip, "--wheel-dir", str(folder), ".", folder=source)
    assert built.returncode == 0, built.stdout
    (wheel,) = folder.glob("pulsar_rebalancer-*-py3-none-any.whl")
    return wheel


def top_level_names(environment: Path) -> set[str]:
    """Packages that programs of this environment can import, without those of pip and setuptools
    that come and go.
    """
    (packages,) = environment.glob("lib/python3*/site-packages")
    return {entry.name for entry in packages.iterdir() if not entry.name.endswith(".dist-info")}


def test_bare_make_prints_its_targets_with_a_sentence_each() -> None:
    printed = run("make").stdout
    assert [
        target
        for target in TARGETS
        if not re.search(rf"^  make {target} +\w.+", printed, re.MULTILINE)
    ] == []


@pytest.mark.heavy
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_of_make_exists(target: str) -> None:
    answer = run("make", "--dry-run", target)
    assert answer.returncode == 0, answer.stdout


def test_make_runs_what_exists() -> None:
    assert "rebalancer demo" in run("make", "--dry-run", "demo").stdout
    assert unknown_options(("rebalancer", "demo")) == []
    for target, module in BENCHMARKS:
        assert f"-m {module}" in run("make", "--dry-run", target).stdout
        assert importlib.util.find_spec(module) is not None
    options: list[str] = []
    golden.pytest_addoption(SimpleNamespace(addoption=lambda *names, **_: options.extend(names)))  # type: ignore[arg-type]
    assert [
        word for word in run("make", "--dry-run", "golden").stdout.split() if word in options
    ] == ["--golden-rewrite"]


def files_of_packages(root: Path) -> set[str]:
    """Paths, relative to `root`, of all files in the product's packages but compiled ones."""
    found = (
        file
        for package in PACKAGES
        for file in (root / package).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    )
    return {file.relative_to(root).as_posix() for file in found}


def test_the_version_stands_in_one_place_and_images_follow_it() -> None:
    old = "image: pulsar-rebalancer-job:0.0.1\n  - name: pulsar-rebalancer-job\n    newTag: 0.0.1\n"
    assert tagged(old) == old.replace("0.0.1", VERSION)
    assert [str(file) for file, text in files() if tagged(text) != text] == []

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert (
        project["tool"]["setuptools"]["dynamic"]["version"]["attr"] == "strategies.settings.VERSION"
    )
    assert f"\n## {VERSION} (" in (ROOT / "docs/CHANGELOG.md").read_text("utf-8")
