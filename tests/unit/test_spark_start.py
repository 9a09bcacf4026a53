"""How Spark starts: attempts, settings of the session, memory, and a Java that ended."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from socketserver import BaseRequestHandler, BaseServer
from typing import Any, cast

import pyspark
import pytest

from streaming.cluster.remote_workers import worker_environment
from streaming.java_process import allocator_environment, java_memory_options
from streaming.settings import JobSettings
from streaming.spark_session import (
    SparkStartError,
    check_version,
    query_settings,
    quiet_after_end,
    spark_settings,
)
from streaming.start_lines import StartLines, StartNews, read_start_lines, start_lines
from tools.servers.java_here import java


def test_lines_of_a_start_are_read_once_each_and_gone_when_the_job_works(tmp_path: Path) -> None:
    logged: list[str] = []
    now = 10.0
    news = StartNews(tmp_path)
    lines = StartLines(tmp_path, logged.append, lambda: now)
    assert news.look() == []
    lines.say("Spark starts")
    lines.say("attempt 1")
    assert news.look() == ["Spark starts", "attempt 1"]
    assert news.look() == []
    lines.say("attempt 2")
    assert news.look() == ["attempt 2"]
    assert read_start_lines(tmp_path)[-1:] == ["attempt 2"]
    now = 85.0
    lines.works()
    lines.works()
    assert (news.look(), read_start_lines(tmp_path)) == ([], [])
    said = ["Spark starts", "attempt 1", "attempt 2", "the job runs after 75 s"]
    assert logged == [f"start: {one}" for one in said]
    lines.say("Spark starts")
    assert news.look() == ["Spark starts"], "a later start is news again"


def test_a_start_begins_without_the_lines_of_a_killed_job_and_leaves_none(tmp_path: Path) -> None:
    StartLines(tmp_path, lambda _: None).say("attempt 7")
    with start_lines(tmp_path, lambda _: None) as lines:
        assert read_start_lines(tmp_path) == []
        lines.say("attempt 1")
        assert read_start_lines(tmp_path) == ["attempt 1"]
    assert read_start_lines(tmp_path) == []


def test_a_folder_that_is_not_there_costs_no_line_of_the_log(tmp_path: Path) -> None:
    logged: list[str] = []
    StartLines(tmp_path / "away", logged.append).say("attempt 1")
    assert (logged, read_start_lines(tmp_path / "away")) == (["start: attempt 1"], [])


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


@pytest.mark.parametrize("heap", ["1g", "800m", "2048M", "2g", "2049m", "3g", "16G"])
def test_a_small_heap_is_collected_by_one_thread_a_large_one_as_java_likes(heap: str) -> None:
    small = heap not in ("2049m", "3g", "16G")
    assert collectors(java_memory_options(heap, {})) == ["-XX:+UseSerialGC"] * small


def test_a_collector_that_the_environment_names_stays() -> None:
    assert not collectors(java_memory_options("1g", {"JDK_JAVA_OPTIONS": "-Dx=1 -XX:+UseZGC"}))
    assert collectors(java_memory_options("1g", {"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"}))


@pytest.mark.parametrize("heap", ["1g", "16G"])
def test_java_starts_with_these_options_and_with_one_that_it_does_not_know(heap: str) -> None:
    options = java_memory_options(heap, {})
    assert "-XX:TrimNativeHeapInterval=60000" in options
    subprocess.run([java(), *options, "-XX:NoSuchInterval=1", "-version"], check=True)


def collectors(options: Sequence[str]) -> list[str]:
    return [one for one in options if one.endswith("GC")]


def test_variables_of_the_allocator_reach_workers_unless_they_are_set() -> None:
    assert worker_environment(JobSettings(), {})["MALLOC_ARENA_MAX"] == "2"
    assert "MALLOC_ARENA_MAX" not in allocator_environment({"MALLOC_ARENA_MAX": "4"})


class Server(BaseServer):
    """An accumulator server without a socket."""

    def fail(self) -> None:
        try:
            raise EOFError
        except EOFError:
            self.handle_error(cast(Any, None), ("127.0.0.1", 1))


def test_a_failure_while_java_runs_is_printed_and_none_after_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with subprocess.Popen(["sleep", "600"]) as jvm:
        server = Server(("127.0.0.1", 0), BaseRequestHandler)
        quiet_after_end(server, jvm, patience_s=0.1)
        server.fail()
        assert "EOFError" in capsys.readouterr().err
        jvm.kill()
        server.fail()
        server.fail()
        assert capsys.readouterr().err == ""
