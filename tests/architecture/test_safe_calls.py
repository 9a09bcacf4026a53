"""Calls that can freeze a broker (docs/PULSAR_FAULTS.md) are in no module of the product, for no
load manager.
"""

from pathlib import Path

import pytest

from tests.architecture.layers import PACKAGES, modules

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("words", ["ownedNamespaces", "owned_namespaces", "?bundle="])
def test_no_module_asks_what_can_freeze_a_broker(words: str) -> None:
    assert [
        str(file)
        for package in PACKAGES
        for file in modules(ROOT / package)
        if words in file.read_text("utf-8")
    ] == []
