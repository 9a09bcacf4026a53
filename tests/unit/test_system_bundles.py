"""Which bundles stay: everything of Pulsar's own in fixed mode, only what 4.2.4 recognises in
parity mode.
"""

from __future__ import annotations

import pytest

from strategies.bundles import is_java_system_bundle, is_system_bundle

RANGE = "0x00000000_0xffffffff"


@pytest.mark.parametrize(
    "namespace",
    ["pulsar/b1:8080", "sla-monitor/b1:8080", "pulsar/10.0.0.1:8080", "pulsar/b.example.org:8443"],
)
def test_both_modes_know_the_namespaces_of_a_broker(namespace: str) -> None:
    assert is_system_bundle(f"{namespace}/{RANGE}")
    assert is_java_system_bundle(f"{namespace}/{RANGE}")


@pytest.mark.parametrize(
    "namespace", ["pulsar/c1/b1:8080", "sla-monitor/c1/b1:8080", "pulsar/system"]
)
def test_java_overlooks_names_of_three_parts_and_system_topics(namespace: str) -> None:
    assert is_system_bundle(f"{namespace}/{RANGE}")
    assert not is_java_system_bundle(f"{namespace}/{RANGE}")


@pytest.mark.parametrize(
    "namespace",
    [
        "public/default",
        "pulsar/functions",
        "pulsars/b1:8080",
        "t/pulsar",
        "t/b1:8080",
        "pulsar/b1",
        "ünï/b1:1",
    ],
)
def test_ordinary_bundles_are_ordinary_in_both(namespace: str) -> None:
    assert not is_system_bundle(f"{namespace}/{RANGE}")
    assert not is_java_system_bundle(f"{namespace}/{RANGE}")
