"""How many examples a property gets, whose warnings are not ours, and signals as in a terminal, also in the background of a script."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Profile → examples of every property: `make check`, `make test`, `make test-long`.
EXAMPLES = {"quick": 25, "thorough": 500, "long": 10_000}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "properties: a property that hypothesis looks for a counterexample of; make test-long looks longest")
    # Of kafka-python: it reads its own files in an old way, and forgets sockets.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    config.addinivalue_line("filterwarnings", "ignore:unclosed <(ssl|socket):ResourceWarning")  # after a handshake that failed
    # Lines added here hold while a test runs; what is found after the last one would fail a run in which everything has passed.
    warnings.filterwarnings("ignore", "unclosed <(ssl|socket)", ResourceWarning)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lanes for `--dist loadgroup`: tests that share a server or Spark run one after the other in one process, so that each starts once.

    All other tests of a file stay together as well.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_lane(item)))


def _lane(item: pytest.Item) -> str:
    folder, name = item.path.parent.name, item.path.name
    if folder == "servers":
        return "kafka" if name.startswith("test_kafka") else "pulsar"
    return "spark" if folder == "spark" else f"{folder}/{name}"


for name, examples in EXAMPLES.items():
    # Only the long search looks elsewhere every time: nobody's other run fails for what he did not change.
    searching = name == "long"
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile(
        name, max_examples=examples, deadline=None, derandomize=not searching, print_blob=True, suppress_health_check=quiet
    )
settings.load_profile("thorough")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests, with the Kafka connector: it takes ten seconds to start and is not what is tested."""
    from streaming.session import start_session, stop_session
    from streaming.settings import JobSettings, Topics

    job = JobSettings(topics=Topics(telemetry="kafka://127.0.0.1:1/never-read"))
    session = start_session(job, tmp_path_factory.mktemp("spark") / "spark.log", short=True)
    yield session
    stop_session(session)
