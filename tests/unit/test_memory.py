"""Which options and variables make Java and the workers return memory."""

from __future__ import annotations

import pytest

from streaming.cluster.workers import worker_environment
from streaming.memory import allocator_environment, heap_options
from streaming.settings import JobSettings


@pytest.mark.parametrize("heap", ["1g", "800m", "2048M", "2g"])
def test_a_small_heap_is_collected_by_one_thread(heap: str) -> None:
    assert "-XX:+UseSerialGC" in heap_options(heap, {})


@pytest.mark.parametrize("heap", ["2049m", "3g", "16G"])
def test_a_large_heap_keeps_the_collector_that_java_picks(heap: str) -> None:
    assert heap_options(heap, {}) == ()


def test_a_collector_that_the_environment_names_stays() -> None:
    assert heap_options("1g", {"JDK_JAVA_OPTIONS": "-Dx=1 -XX:+UseZGC"}) == ()
    assert heap_options("1g", {"JDK_JAVA_OPTIONS": "-XX:+UseSerialGC"}) != ()


def test_variables_of_the_allocator_reach_workers_unless_they_are_set() -> None:
    assert worker_environment(JobSettings(), {})["MALLOC_ARENA_MAX"] == "2"
    assert "MALLOC_ARENA_MAX" not in allocator_environment({"MALLOC_ARENA_MAX": "4"})
