"""The job's Spark writes local files with a class of ours, which sets their modes itself."""

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streaming.java_process import LOCAL_FILES, use_local_files

pytestmark = pytest.mark.spark


@pytest.fixture
def files(spark: SparkSession) -> Any:
    """The file system that Spark's checkpoints are on."""
    java: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    return java.org.apache.hadoop.fs.FileSystem.get(
        java.java.net.URI.create("file:///any"), configuration
    )


def path_of(spark: SparkSession, file: Path) -> Any:
    java: Any = spark.sparkContext._jvm
    return java.org.apache.hadoop.fs.Path(f"file://{file}")


def test_spark_uses_our_class_for_local_files(files: Any) -> None:
    assert files.getClass().getName() == LOCAL_FILES


def test_a_new_file_has_its_mode_and_its_checksums(
    spark: SparkSession, files: Any, tmp_path: Path
) -> None:
    file = tmp_path / "folder" / "new"
    out = files.create(path_of(spark, file))
    out.write(bytearray(b"some bytes"))
    out.close()
    assert file.read_bytes() == b"some bytes"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert (file.parent / ".new.crc").stat().st_size > 0


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o777, 0o1777])
def test_modes_are_set_as_chmod_sets_them(
    spark: SparkSession, files: Any, tmp_path: Path, mode: int
) -> None:
    java: Any = spark.sparkContext._jvm
    (tmp_path / "file").touch()
    permission = java.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")
    files.setPermission(path_of(spark, tmp_path / "file"), permission)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_java_without_the_compiler_keeps_hadoops_class() -> None:
    class NoClasses:
        def __getattr__(self, name: str) -> Any:
            raise TypeError(f"{name} is no class")

    use_local_files(SimpleNamespace(jvm=SimpleNamespace(org=NoClasses())))
