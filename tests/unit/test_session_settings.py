"""Settings of Spark that keep the job small: what is held here needs no clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from streaming.session import SparkStartError, check_version, query_settings, spark_settings
from streaming.settings import JobSettings


def test_spark_remembers_little_has_no_pages_and_looks_at_a_quiet_topic_once_a_second() -> None:
    settings = spark_settings(JobSettings())
    kept = [int(value) for name, value in settings.items() if ".retained" in name]
    assert (len(kept), max(kept)) == (5, 100)
    assert settings["spark.ui.enabled"] == settings["spark.ui.showConsoleProgress"] == "false"
    assert query_settings(JobSettings())["spark.sql.streaming.pollingDelay"] == "1s"


def test_java_puts_its_files_into_the_folder_of_the_job() -> None:
    def options(outer: Mapping[str, str]) -> str:
        settings = spark_settings(JobSettings(), temporary=Path("/var/tmp/a b"), outer=outer)
        return settings["spark.driver.extraJavaOptions"]

    assert ' "-Djava.io.tmpdir=/var/tmp/a b"' in options({})
    chosen = {"JAVA_TOOL_OPTIONS": "-Djava.io.tmpdir=/big"}
    assert "java.io.tmpdir" not in options(chosen), "its user has chosen another one"
    assert "java.io.tmpdir" not in spark_settings(JobSettings())["spark.driver.extraJavaOptions"]


def test_a_spark_home_of_another_version_is_named() -> None:
    check_version(pyspark.__version__, {})
    with pytest.raises(SparkStartError, match=r"SPARK_HOME=/opt/spark has version 3\.5\.1"):
        check_version("3.5.1", {"SPARK_HOME": "/opt/spark"})
