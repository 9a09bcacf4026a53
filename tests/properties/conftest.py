"""Every test of this folder is a property: `make test-long` runs them all, with the profile
`long`.
"""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.properties)
