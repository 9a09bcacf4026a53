"""How many examples a property gets, whose warnings are not ours, and signals as in a terminal,
also in the background of a script.
"""

from __future__ import annotations

import gc
import signal
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.chromium import browser  # noqa: F401 (a fixture of all folders)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

#: Profile → examples of every property: `make check`, `make test`, `make test-long`.
EXAMPLES = {"quick": 25, "thorough": 500, "long": 10_000}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "properties: a property that hypothesis looks for a counterexample of; make test-long "
        "looks longest",
    )
    # Of kafka-python: it reads its own files in an old way, and forgets sockets.
    config.addinivalue_line(
        "filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning"
    )
    config.addinivalue_line(
        "filterwarnings", "ignore:unclosed <(ssl|socket):ResourceWarning"
    )  # after a handshake that failed
    # Lines added here hold while a test runs; what is found after the last one would fail a run in
    # which everything has passed.
    warnings.filterwarnings("ignore", "unclosed <(ssl|socket)", ResourceWarning)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: no garbage collection has to walk through it again,
    and fewer are needed.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Tests that share a server or Spark run one after the other in one process, so that each
    starts once; so do the tests of a file.
    """

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid.partition("::")[0])


#: The lanes that take minutes, the longest first: what is handed out last is over in seconds, and
#: no process waits long for the other.
LONGEST = (
    "pulsar",
    "tests/servers/test_roll.py",
    "tests/servers/test_drain.py",
    "tests/faults/test_kill_everything.py",
    "kafka",
    "spark",
)
#: Files whose servers nothing else uses.
OWN_SERVERS = (
    "tests/servers/test_drain.py",
    "tests/servers/test_roll.py",
    "tests/servers/test_spark_submit.py",
    "tests/servers/test_troubled_cluster.py",
    "tests/servers/test_waves.py",
)


def lane(file: str) -> str:
    """The lane of a test file, a path from the project's folder with slashes."""
    if file.startswith("tests/servers/") and file not in OWN_SERVERS:
        # The topics of the Spark cluster are on Kafka.
        return (
            "kafka"
            if file.startswith(("tests/servers/test_kafka", "tests/servers/test_spark_cluster"))
            else "pulsar"
        )
    return "spark" if file.startswith("tests/spark/") else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lanes are given out in the order of the tests."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(lane(item.nodeid.partition("::")[0]), len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes | None:
    """With `--dist loadscope`; `loadgroup` of pytest-xdist 3.8 groups nothing under pytest 9.2."""
    return Lanes(config, log) if config.getoption("dist") == "loadscope" else None


for name, examples in EXAMPLES.items():
    # Only the long search looks elsewhere every time: nobody's other run fails for what he did not
    # change.
    searching = name == "long"
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=not searching,
        print_blob=True,
        suppress_health_check=quiet,
    )
settings.load_profile("thorough")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests, with the Kafka connector: it takes ten seconds to start and is not
    what is tested.
    """
    from sinks.topics.connections import Connections
    from streaming.session import start_session, stop_session
    from streaming.settings import JobSettings
    from tests.topic_uris import topics_of

    job = JobSettings(
        connections=Connections(topics=topics_of(telemetry="kafka://127.0.0.1:1/never-read"))
    )
    session = start_session(job, tmp_path_factory.mktemp("spark") / "spark.log", short=True)
    yield session
    stop_session(session)
