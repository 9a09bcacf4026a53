"""How many examples a property gets, whose warnings are not ours, and signals as in a terminal,
also in the background of a script.
"""

import gc
import signal
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.chromium import browser  # noqa: F401 (a fixture of all folders)
from tests.lanes import Lanes, by_length, left_out
from tests.skipping import (  # noqa: F401 (hooks of all folders)
    pytest_runtest_call,
    pytest_runtest_setup,
)

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

#: Profile → examples of every property: `make check`, `make test`, `make test-long`.
EXAMPLES = {"quick": 25, "thorough": 100, "long": 10_000}


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lanes are given out in the order of the tests."""
    by_length(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> Lanes | None:
    """With `--dist loadscope`; `loadgroup` of pytest-xdist 3.8 groups nothing under pytest 9.2."""
    return Lanes(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_terminal_summary(terminalreporter: "TerminalReporter") -> None:
    """One line about what this machine could not run, and why."""
    skipped = left_out(terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.write_line(f"not run on this machine: {skipped}", yellow=True, bold=True)


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
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One Spark for all tests, with the Kafka connector: it takes ten seconds to start and is not
    what is tested.
    """
    from sinks.topics.topic_settings import Connections
    from streaming.jars.locked_jars import JarsMissing
    from streaming.settings import JobSettings
    from streaming.spark_session import start_session, stop_session
    from tests.topic_uris import topics_of
    from tools.servers.quick_java import JAVA_OPTIONS, short_java

    job = JobSettings(
        connections=Connections(topics=topics_of(telemetry="kafka://127.0.0.1:1/never-read"))
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(JAVA_OPTIONS, short_java())
        try:
            session = start_session(job, tmp_path_factory.mktemp("spark") / "spark.log", short=True)
        except JarsMissing as error:
            pytest.skip(f"Spark's Kafka connector is not here: {error}")
    yield session
    stop_session(session)
