"""A bundle's row and throughput without adding up the whole table, and which are Pulsar's own:
in parity mode only those that 4.2.4 recognises.
"""

import numpy as np
import pytest

from strategies.bundles import BundleLoads, is_java_system_bundle, is_system_bundle, no_bundles

NAMES = ("t/n/0x00_0x01", "t/n/0x01_0x02", "t/n/0x02_0x03")


def test_one_throughput_is_that_of_the_column() -> None:
    short, counts = np.arange(12.0).reshape(3, 4) / 3, np.ones(3, dtype=np.int64)
    table = BundleLoads(NAMES, short, short, counts, counts, counts, counts, short)
    assert [table.row(name) for name in NAMES] == [0, 1, 2]
    assert [table.throughput_of(name) for name in NAMES] == table.msg_throughput.tolist()


def test_a_bundle_that_is_not_there_has_no_row_and_no_throughput() -> None:
    assert no_bundles().row(NAMES[0]) is None
    assert no_bundles().throughput_of(NAMES[0]) == 0.0


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
