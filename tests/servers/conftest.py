"""One Kafka broker for all tests of this folder; each test makes topics of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.kafka_broker import KafkaBroker, kafka_broker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that a test may kill."""
    with kafka_broker(tmp_path_factory.mktemp("own-kafka")) as broker:
        yield broker
