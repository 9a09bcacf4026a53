"""The lock files pin every package with digests, agree with each other, and name no place to
download from.
"""

import re
import tomllib
from pathlib import Path

import pytest

from scripts.packages import locked, sizes
from tests.architecture.layers import PACKAGES, distribution

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


def test_there_is_a_lock_for_development_for_the_product_and_for_each_image() -> None:
    assert [lock.stem for lock in LOCKS] == ["dev", "executor", "job", "product"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_package_has_one_version_and_digests(lock: Path) -> None:
    pinned = [
        block
        for block in lock.read_text("utf-8").replace("\\\n", " ").splitlines()
        if re.match(r"[a-z0-9]", block)
    ]
    assert len(pinned) > 10
    assert [line for line in pinned if "==" not in line or "--hash=sha256:" not in line] == []
    assert len({line.partition("==")[0] for line in pinned}) == len(pinned)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_no_lock_says_where_to_download_from(lock: Path) -> None:
    assert (
        re.findall(r"\S+://\S+|--(?:extra-)?index-url|--find-links", lock.read_text("utf-8")) == []
    )


def test_users_and_images_run_the_versions_that_were_tested() -> None:
    assert versions("executor").items() <= versions("job").items()
    assert versions("job").items() <= versions("product").items()
    assert versions("product").items() <= versions("dev").items()


def test_the_size_of_every_package_is_known() -> None:
    """What an installation takes is printed before it begins."""
    measured = sizes()
    assert {name: size.version for name, size in measured.items()} == locked("dev.lock")
    assert all(size.download > 0 < size.disk for size in measured.values())


def test_the_locks_follow_the_declared_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    base = {distribution(line) for line in project["dependencies"]}
    extras = {
        name: {distribution(line) for line in lines}
        for name, lines in project["optional-dependencies"].items()
    }
    assert base <= versions("executor").keys()
    assert base | extras["spark"] <= versions("job").keys()
    assert base.union(*extras.values()) <= versions("dev").keys()
    product = base.union(*(extras[name] for name in ("spark", "report", "serve", "editable")))
    assert product <= versions("product").keys()
    assert versions("product").keys() & extras["dev"] == set()
    assert versions("executor").keys() & extras["spark"] == set()


def test_every_folder_of_modules_is_packaged() -> None:
    """A folder without __init__.py would be left out of the wheel, and nobody would notice in an
    editable install.
    """
    folders = {file.parent for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    assert [
        folder.relative_to(ROOT).as_posix()
        for folder in sorted(folders)
        if not (folder / "__init__.py").exists()
    ] == []
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()] == []


def versions(lock: str) -> dict[str, str]:
    """Package → version of requirements/`lock`.lock."""
    text = (ROOT / f"requirements/{lock}.lock").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
