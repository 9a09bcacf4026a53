"""One Spark for all tests of this folder: it takes ten seconds to start and is not what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.session import start_session, stop_session
from streaming.settings import JobSettings
from tests.spark.workshop import Workshop


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_session(JobSettings(), tmp_path_factory.mktemp("spark") / "spark.log", short=True)
    yield session
    stop_session(session)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
