"""A call that can freeze a modular broker (docs/PULSAR_FAULTS.md) is in no module of the product,
for no load manager.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.layers import PACKAGES, modules

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("words", ["ownedNamespaces", "owned_namespaces"])
def test_no_module_lists_what_a_broker_owns(words: str) -> None:
    assert [
        str(file)
        for package in PACKAGES
        for file in modules(ROOT / package)
        if words in file.read_text("utf-8")
    ] == []
