"""A test whose server has no jars is skipped, wherever it starts the server. These hooks become
those of tests/conftest.py.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tools.servers.jvm import JarsNotHere


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with skipped_without_jars():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with skipped_without_jars():
        yield


@contextmanager
def skipped_without_jars() -> Generator[None]:
    """The reason of the skip says which jars, and why they are not here."""
    try:
        yield
    except JarsNotHere as error:
        pytest.skip(str(error))
