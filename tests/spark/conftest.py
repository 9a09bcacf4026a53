"""A folder of its own for every test; the session they share is in the conftest above."""

from pathlib import Path

import pytest

from tests.spark.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
