"""Fixtures of the executor's stories."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import BUNDLES
from tests.world.services import Scene


@pytest.fixture(params=["modular", "extensible"])
def pulsar(request: pytest.FixtureRequest) -> Iterator[FakePulsar]:
    """Three brokers; the first owns every bundle."""
    with FakePulsar(Cluster(manager=request.param)) as running:
        running.cluster.owners.update(dict.fromkeys(BUNDLES, running.cluster.brokers[0]))
        yield running


@pytest.fixture
def control(tmp_path: Path) -> Control:
    return Control(tmp_path)


@pytest.fixture
def scene(pulsar: FakePulsar, control: Control) -> Scene:
    return Scene(pulsar, control)
