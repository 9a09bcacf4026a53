"""Syntax trees are shared by the tests of this folder and given back after them."""

from collections.abc import Iterator

import pytest

from tests.architecture.layers import nodes, parsed


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """They are hundreds of thousands of objects, which every later garbage collection would walk
    through.
    """
    yield
    nodes.cache_clear()
    parsed.cache_clear()
