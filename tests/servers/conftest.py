"""One Kafka broker and one Pulsar cluster of each kind for all tests of this folder; each test makes topics or a namespace of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.servers.jvm import has_compiler
from tests.servers.kafka_broker import KafkaBroker, kafka_broker
from tests.servers.pulsar_cluster import PulsarCluster, pulsar_cluster
from tests.servers.pulsar_processes import PulsarProcesses, pulsar_processes


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    # Nobody kills it: a machine that is busy for seconds must not count as a broker that is gone.
    with kafka_broker(tmp_path_factory.mktemp("kafka"), {"broker.session.timeout.ms": "60000"}) as broker:
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
    with pulsar_cluster(tmp_path_factory.mktemp("guarded-pulsar"), "extensible", guarded=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def modular(jdk: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarProcesses]:
    """Four brokers with the modular load manager, each a process that a test may kill and must start again, and a fifth that may join."""
    with pulsar_processes(tmp_path_factory.mktemp("modular"), brokers=5, later=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def jdk() -> None:
    """What a Pulsar cluster needs of the machine."""
    if sys.platform != "linux":
        pytest.skip("each broker has a loopback address of its own, 127.0.41.1 and on, which only Linux gives without being told")
    if not has_compiler():
        pytest.skip("this Java has no compiler, which the launcher of the Pulsar cluster needs; install a JDK, or name one as JAVA_HOME")
