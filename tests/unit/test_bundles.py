"""A bundle's row, throughput and hashes, and which bundles are Pulsar's own, in both modes."""

import numpy as np
import pytest

from strategies.bundles import (
    FULL,
    BundleLoads,
    KeyRange,
    is_java_system_bundle,
    is_system_bundle,
    no_bundles,
)

NAMES = ("t/n/0x00_0x01", "t/n/0x01_0x02", "t/n/0x02_0x03")


def test_one_throughput_is_that_of_the_column() -> None:
    short, counts = np.arange(12.0).reshape(3, 4) / 3, np.ones(3, dtype=np.int64)
    table = BundleLoads(NAMES, short, short, counts, counts, counts, counts, short)
    assert [table.row(name) for name in NAMES] == [0, 1, 2]
    assert [table.throughput_of(name) for name in NAMES] == table.msg_throughput.tolist()


def test_a_bundle_that_is_not_there_has_no_row_and_no_throughput() -> None:
    assert no_bundles().row(NAMES[0]) is None
    assert no_bundles().throughput_of(NAMES[0]) == 0.0


def test_the_largest_hash_is_in_the_last_bundle() -> None:
    assert FULL in KeyRange(0xC0000000, FULL)


@pytest.mark.parametrize(
    ("namespace", "is_system", "java_knows"),
    [
        ("pulsar/b1:8080", True, True),
        ("sla-monitor/b1:8080", True, True),
        ("pulsar/10.0.0.1:8080", True, True),
        ("pulsar/b.example.org:8443", True, True),
        # Java overlooks names of three parts and system topics.
        ("pulsar/c1/b1:8080", True, False),
        ("sla-monitor/c1/b1:8080", True, False),
        ("pulsar/system", True, False),
        ("public/default", False, False),
        ("pulsar/functions", False, False),
        ("pulsars/b1:8080", False, False),
        ("t/pulsar", False, False),
        ("t/b1:8080", False, False),
        ("pulsar/b1", False, False),
        ("ünï/b1:1", False, False),
    ],
)
def test_which_namespaces_are_pulsars_own(
    namespace: str, *, is_system: bool, java_knows: bool
) -> None:
    bundle = f"{namespace}/0x00000000_0xffffffff"
    assert (is_system_bundle(bundle), is_java_system_bundle(bundle)) == (is_system, java_knows)
