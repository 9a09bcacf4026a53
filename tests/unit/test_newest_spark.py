"""`make lock UPGRADE=1` reports whether a newer Spark has everything that the job needs."""

from importlib import metadata

import pytest

from scripts.newest_spark import (
    NoAnswer,
    is_published,
    needed_jars,
    newer_versions,
    published_versions,
)
from streaming.jars.locked_jars import Jar, connector_jars

RELEASES = ("4.1.4", "4.2.0", "4.10.0", "4.2.1")


def test_only_newer_releases_are_candidates_in_the_order_of_their_numbers() -> None:
    found = newer_versions("4.2.0", RELEASES, lambda jar: True)
    assert [one.version for one in found] == ["4.2.1", "4.10.0"]
    assert "pyspark 4.2.1: has all jars" in found[0].line()


def test_a_release_without_its_connector_is_not_usable() -> None:
    def published(jar: Jar) -> bool:
        return "4.2.1" not in jar.path

    first, second = newer_versions("4.2.0", RELEASES, published)
    assert first.line() == (
        "pyspark 4.2.1: not usable, spark-sql-kafka-0-10_2.13-4.2.1.jar is not published"
    )
    assert second.missing == ()


def test_the_jars_of_the_locked_version_are_the_locked_jars() -> None:
    locked = metadata.version("pyspark")
    assert [jar.path for jar in needed_jars(locked)] == [jar.path for jar in connector_jars()]


@pytest.mark.slow
def test_no_newer_patch_of_spark_has_all_jars() -> None:
    """Fails when one can be adopted; the message says how. Asks index and repository."""
    locked = metadata.version("pyspark")
    try:
        found = newer_versions(locked, published_versions(), is_published)
    except NoAnswer as error:
        pytest.skip(f"not checked: {error}")
    usable = [one.line() for one in found if not one.missing]
    assert usable == []
