"""Which tests run in one process, in which order, and what a run left out.

Marks say what a test needs (pyproject.toml); the Makefile's lanes choose by them.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def variant(*values: object) -> "ParameterSet":
    """Parameters that `make test` leaves out, because it tries others of the same test."""
    return pytest.param(*values, marks=pytest.mark.variant)


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Tests that share a server or Spark run one after the other in one process, so that each
    starts once; so do the tests of a file.
    """

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)


#: The lanes that take minutes, the longest first: what is handed out last is over in seconds, and
#: no process waits long for the other.
LONGEST = (
    "pulsar",
    "spark",
    "tests/servers/test_roll.py",
    "tests/servers/test_drain.py",
    "tests/faults/test_kill_everything.py",
)
#: Files whose servers nothing else uses.
OWN_SERVERS = (
    "tests/servers/test_drain.py",
    "tests/servers/test_roll.py",
    "tests/servers/test_spark_submit.py",
    "tests/servers/test_troubled_cluster.py",
    "tests/servers/test_waves.py",
)
#: One Spark session and one Kafka broker serve all of these.
SPARK = ("tests/spark/", "tests/servers/test_kafka", "tests/servers/test_spark_cluster")


def lane(nodeid: str) -> str:
    """The lane of a test. Its file is a path from the project's folder with slashes; of a contract,
    the tests on Kafka belong to the broker's lane.
    """
    file = _file(nodeid)
    on_kafka = file.endswith("_contract.py") and "[kafka" in nodeid
    if on_kafka or file.startswith(SPARK):
        return "spark"
    if file.startswith("tests/servers/") and file not in OWN_SERVERS:
        return "pulsar"
    return file


def by_length(items: list[pytest.Item]) -> None:
    """Sorts tests so that the longest lanes come first."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(lane(item.nodeid), len(places)))


def left_out(skipped: Iterable[pytest.TestReport]) -> str:
    """Folder, number of tests and reason of each group of skipped tests."""
    groups = Counter((PurePath(_file(one.nodeid)).parent, _reason(one)) for one in skipped)
    return "; ".join(
        f"{folder} ({count}): {reason}" for (folder, reason), count in sorted(groups.items())
    )


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _reason(report: pytest.TestReport) -> str:
    assert isinstance(report.longrepr, tuple)
    return report.longrepr[2].removeprefix("Skipped: ")
