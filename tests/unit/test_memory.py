"""Which options and variables make Java and the workers return memory."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from streaming.cluster.workers import worker_environment
from streaming.java_process import allocator_environment, java_memory_options
from streaming.settings import JobSettings
from tools.servers.jvm import java


@pytest.mark.parametrize("heap", ["1g", "800m", "2048M", "2g"])
def test_a_small_heap_is_collected_by_one_thread(heap: str) -> None:
    assert "-XX:+UseSerialGC" in java_memory_options(heap, {})


@pytest.mark.parametrize("heap", ["2049m", "3g", "16G"])
def test_a_large_heap_keeps_the_collector_that_java_picks(heap: str) -> None:
    assert not collectors(java_memory_options(heap, {}))


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
