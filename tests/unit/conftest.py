"""Fixtures of the stories of an executor, and of a person beside a job."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_topic import Control
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.unit.executor_lives import BUNDLES
from tests.unit.folding_job import A, B, C, FoldingJob, Person
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


@pytest.fixture
def person(control: Control) -> Person:
    return Person(control)


@pytest.fixture
def job(control: Control) -> Iterator[FoldingJob]:
    """The job of three brokers with two bundles each."""
    with FoldingJob(control, (A, B, C)).running() as running:
        yield running
