"""What travels to Spark's workers fits the Python that sends it, or is refused with the next
step.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from pulsar_rebalancer.doctor.environment import check_shipped
from strategies.errors import SettingsError
from streaming.cluster.shipping import (
    archive_here,
    check_environment,
    needed_distributions,
    packed_files,
    python_name,
    read_manifest,
    write_environment,
)
from streaming.settings import JobSettings

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def archive(folder: Path, python: str = HERE, **versions: str) -> Path:
    """An archive that says it holds what is installed here, but for `versions`; it holds
    nothing.
    """
    packages = {name: one.version for name, one in needed_distributions().items()} | versions
    return archive_of(
        folder,
        "rebalancer-environment.json",
        {"v": 1, "python": python, "platform": "any", "packages": packages},
    )


def archive_of(folder: Path, name: str, tree: Mapping[str, object]) -> Path:
    text, entry = json.dumps(tree).encode(), tarfile.TarInfo(name)
    entry.size = len(text)
    file = folder / "environment.tar.gz"
    with tarfile.open(file, "w:gz") as made:
        made.addfile(entry, io.BytesIO(text))
    return file


def test_an_archive_of_the_same_packages_fits(tmp_path: Path) -> None:
    check_environment(archive(tmp_path, python_name().removeprefix("python")))
    packages = read_manifest(archive(tmp_path)).packages
    assert packages["numpy"] == metadata.version("numpy")
    assert {"pandas", "pyarrow", "msgspec", "protobuf", "pytz"} <= packages.keys()
    assert {"pyspark", "py4j", "pulsar-rebalancer", "pytest"} & packages.keys() == set()


def test_an_archive_of_another_python_or_of_other_versions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        check_environment(archive(tmp_path, python="3.9", numpy="1.0"))
    assert refused.value.complaints == [
        f"job.environment: {tmp_path}/environment.tar.gz contains Python 3.9, here {HERE}; "
        f"numpy 1.0, here {metadata.version('numpy')}: "
        f"make it again with: rebalancer ship {tmp_path}/environment.tar.gz"
    ]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x1f\x8b\x08\x00", None])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = archive_of(tmp_path, "readme.json", {})
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(
        SettingsError, match="is not an archive of this program; make one with: rebalancer ship"
    ):
        check_environment(file)
    with pytest.raises(
        SettingsError, match=r"gone\.tar\.gz does not exist; make it with: rebalancer ship"
    ):
        check_environment(tmp_path / "gone.tar.gz")


def test_an_archive_has_a_place_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be written"):
        write_environment(tmp_path / "file" / "environment.tar.gz")


def test_an_archive_may_be_named_as_a_file_uri() -> None:
    named = ("/srv/our files/e.tar.gz", "file:///srv/our%20files/e.tar.gz")
    assert {archive_here(one) for one in named} == {Path("/srv/our files/e.tar.gz")}
    assert archive_here("file:/srv/e.tar.gz") == Path("/srv/e.tar.gz")
    assert archive_here("https://files.example/e.tar.gz") is archive_here("") is None


def test_a_file_that_an_image_has_left_out_is_not_packed(tmp_path: Path) -> None:
    described = tmp_path / "thing-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: thing\nVersion: 1.0\n")
    (described / "RECORD").write_text("thing.py,,\nthing-1.0.dist-info/LICENSE,,\n")
    (tmp_path / "thing.py").touch()
    packed = packed_files([metadata.Distribution.at(described)])
    assert list(packed) == [(tmp_path / "thing.py", "thing.py")]


@pytest.mark.heavy
def test_doctor_compares_the_archive_before_it_is_used(tmp_path: Path) -> None:
    job = JobSettings(master="spark://master:7077", environment=str(archive(tmp_path)))
    assert [finding.status for finding in check_shipped(job)] == ["ok"]
    archive(tmp_path, numpy="1.0")
    (finding,) = check_shipped(job)
    assert finding.status == "fail"
    assert finding.remedy == f"rebalancer ship {tmp_path}/environment.tar.gz"
    assert check_shipped(replace(job, master="local[2]")) == []
    assert check_shipped(replace(job, environment="https://files.example/e.tar.gz")) == []
