"""One Kafka broker and one Pulsar cluster of each kind for all tests of this folder; each test
makes topics or a namespace of its own.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sinks.topics.open_topics import Consumer, open_consumer
from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.servers.topic_server import TopicServer, topic_server
from tests.topic_uris import topic_of
from tests.unit.executor_lives import BUNDLES
from tests.unit.test_collector import REPORT
from tools.servers.java_here import has_compiler, java_from
from tools.servers.jvm import Program
from tools.servers.kafka_broker import KafkaBroker, kafka_broker
from tools.servers.pulsar_cluster import PULSAR, PULSAR_50, PulsarCluster, pulsar_cluster
from tools.servers.pulsar_processes import PulsarProcesses, pulsar_processes
from tools.servers.watch import Watched, first_fault
from tools.traffic.bundle_users import Bundles, bundles

#: What is known of the clusters that tests share, by the cluster's first address.
_WATCHED = pytest.StashKey[dict[str, Watched]]()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    # Nobody kills it: a machine that is busy for seconds must not count as a broker that is gone.
    with kafka_broker(
        tmp_path_factory.mktemp("kafka"), {"broker.session.timeout.ms": "60000"}
    ) as broker:
        yield broker


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that a test may kill."""
    with kafka_broker(tmp_path_factory.mktemp("own-kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def pulsar(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    """Three brokers with the modular load manager, open to everybody."""
    with pulsar_cluster(tmp_path_factory.mktemp("pulsar")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def guarded_pulsar(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    """Three brokers with the extensible load manager, that ask for tokens."""
    with pulsar_cluster(
        tmp_path_factory.mktemp("guarded-pulsar"), "extensible", guarded=True
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pulsar50(jdk21: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    with pulsar_cluster(tmp_path_factory.mktemp("pulsar50"), program=PULSAR_50) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def guarded_pulsar50(
    jdk21: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarCluster]:
    with pulsar_cluster(
        tmp_path_factory.mktemp("guarded-pulsar50"), "extensible", guarded=True, program=PULSAR_50
    ) as cluster:
        yield cluster


@pytest.fixture
def balanced() -> Iterator[FakePulsar]:
    """A cluster that is balanced, beside that of the topics: its brokers stay."""
    with FakePulsar(Cluster(report=REPORT)) as running:
        running.cluster.owners |= dict.fromkeys(BUNDLES, running.cluster.brokers[0])
        yield running


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], Consumer]]:
    """Opens the consumer of a group; the one before is closed, as if its process had ended."""
    made: list[Consumer] = []

    def opening(uri: str) -> Consumer:
        for one in made:
            one.close()
        made[:] = [open_consumer(topic_of(uri), "workers", tmp_path)]
        return made[0]

    yield opening
    for one in made:
        one.close()


@pytest.fixture
def cluster(kind: str, request: pytest.FixtureRequest) -> PulsarCluster:
    """That of the fixture with this name: a parameter of the test."""
    return request.getfixturevalue(kind)  # type: ignore[no-any-return]


@pytest.fixture
def used(cluster: PulsarCluster, tmp_path: Path) -> Iterator[Bundles]:
    """A namespace of the test's own."""
    with bundles(cluster, f"t/{tmp_path.name}") as made:
        yield made


@pytest.fixture
def server(request: pytest.FixtureRequest) -> TopicServer:
    """Topics on the server of this name: a parameter of the test."""
    return topic_server(request.getfixturevalue(request.param))


@pytest.fixture(scope="session")
def modular(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarProcesses]:
    """Four brokers with the modular load manager, each a process that a test may kill and must
    start again, and a fifth that may join.
    """
    with pulsar_processes(tmp_path_factory.mktemp("modular"), brokers=5, later=1) as cluster:
        yield cluster


@pytest.fixture
def extensible(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarProcesses]:
    """Three brokers that ask for tokens, each a process."""
    with pulsar_processes(
        tmp_path_factory.mktemp("extensible"), "extensible", brokers=3, guarded=True
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def jdk() -> None:
    """What a Pulsar cluster needs of the machine."""
    if sys.platform != "linux":
        pytest.skip(
            "each broker has a loopback address of its own, 127.0.41.1 and on, which only "
            "Linux gives without being told"
        )
    _can_run(PULSAR)


@pytest.fixture(scope="session")
def jdk21(jdk: None) -> None:
    """What Pulsar 5.0 needs besides: a newer Java, and jars that can be had."""
    _can_run(PULSAR_50)


def _can_run(program: Program) -> None:
    found = java_from(program.oldest_java)
    if found is None:
        pytest.skip(
            f"{program.name} needs Java {program.oldest_java} or newer; install a JDK, or name "
            "one as JAVA_HOME"
        )
    if not has_compiler(found):
        pytest.skip(
            f"{found} has no compiler, which the launcher of the Pulsar cluster needs; "
            "install a JDK, or name one as JAVA_HOME"
        )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_WATCHED] = {}


def pytest_runtest_call(item: pytest.Item) -> None:
    """A test on a cluster that is broken says so, and does not fail with a riddle."""
    if fault := first_fault(_used_by(item)):
        pytest.fail(
            f"the cluster of this test is broken since an earlier test: {fault}", pytrace=False
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure on a cluster that is broken names the broker, beside what the test itself has to
    say.
    """
    report = yield
    if report.failed and call.when == "call" and (fault := first_fault(_used_by(item))):
        report.sections.append(("the cluster is broken", fault))
    return report


def _used_by(item: pytest.Item) -> list[Watched]:
    """The shared clusters of a test."""
    known, funcargs = item.config.stash.get(_WATCHED, {}), getattr(item, "funcargs", {})
    return [
        known.setdefault(watched[0], watched[1])
        for value in funcargs.values()
        if (watched := _watched(value)) is not None
    ]


def _watched(value: Any) -> tuple[str, Watched] | None:
    if isinstance(value, PulsarProcesses):
        return value.cluster.brokers[0], Watched(
            value.servers, value.cluster.settings(value.cluster.server.folder)
        )
    if isinstance(value, PulsarCluster):
        return value.brokers[0], Watched(
            dict.fromkeys(value.brokers, value.server), value.settings(value.server.folder)
        )
    return None
