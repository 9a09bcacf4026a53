"""A bundle's row and its throughput, without adding up the whole table."""

from __future__ import annotations

import numpy as np

from strategies.bundles import BundleLoads, no_bundles

NAMES = ("t/n/0x00_0x01", "t/n/0x01_0x02", "t/n/0x02_0x03")


def test_one_throughput_is_that_of_the_column() -> None:
    short, counts = np.arange(12.0).reshape(3, 4) / 3, np.ones(3, dtype=np.int64)
    table = BundleLoads(NAMES, short, short, counts, counts, counts, counts, short)
    assert [table.row(name) for name in NAMES] == [0, 1, 2]
    assert [table.throughput_of(name) for name in NAMES] == table.msg_throughput.tolist()


def test_a_bundle_that_is_not_there_has_no_row_and_no_throughput() -> None:
    assert no_bundles().row(NAMES[0]) is None
    assert no_bundles().throughput_of(NAMES[0]) == 0.0
