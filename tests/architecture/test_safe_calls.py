"""A call that can freeze a modular broker (docs/PULSAR_FAULTS.md) is named in one place of the product, and used behind one guard."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.layers import LAYERS, modules

ROOT = Path(__file__).parents[2]


def naming(words: str) -> dict[str, int]:
    """Product module → how often it has the words."""
    found = {str(file.relative_to(ROOT)): file.read_text("utf-8").count(words) for package in LAYERS for file in modules(ROOT / package)}
    return {file: times for file, times in found.items() if times}


def test_only_one_method_calls_it() -> None:
    assert naming("ownedNamespaces") == {"sinks/pulsar_admin.py": 1}


def test_only_brokers_that_publish_as_extensible_ones_do_are_asked() -> None:
    assert naming("extensible_ownership(") == {"sinks/pulsar_admin.py": 1, "sinks/extensible_poll.py": 1}
