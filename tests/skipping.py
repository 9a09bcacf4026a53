"""A test whose server cannot be had is skipped, wherever it starts the server. These hooks become
those of tests/conftest.py.
"""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tools.not_here import NotHere


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with skipped_without_server():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with skipped_without_server():
        yield


@contextmanager
def skipped_without_server() -> Generator[None]:
    """The reason of the skip says what is not here, and why."""
    try:
        yield
    except NotHere as error:
        pytest.skip(str(error))
