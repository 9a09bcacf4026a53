"""The tables of docs/STRATEGIES.md about limits, advice, filters, splits and placement: every
setting, its Pulsar key, its default.
"""

from __future__ import annotations

import re

import pytest

from rebalancer.settings.leaves import Leaf, all_leaves
from tests.unit.strategies_page import PAGE, rows

SECTIONS = {
    "limits": "## Limits",
    "rivals": "## Rivals",
    "bulkhead": "## Quota",
    "throttling": "## Throttle advice",
    "filters": "## Filters",
    "splitting": "## Splitting bundles: when",
    "placement": "## Placement",
}
LEAVES = [leaf for leaf in all_leaves() if leaf.section in SECTIONS]


def told(leaf: Leaf) -> tuple[str, str]:
    """Default and Pulsar's key in the row of a setting."""
    section = PAGE.split(f"\n{SECTIONS[leaf.section]}\n")[1].split("\n## ")[0]
    (row,) = [
        row for row in rows(section) if re.search(rf"`{leaf.key}`", row[0]) and len(row) == 4
    ][:1]
    return row[1], row[2]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.path)
def test_a_setting_stands_in_its_table(leaf: Leaf) -> None:
    default, key = told(leaf)
    assert key == (f"`{leaf.setting.pulsar}`" if leaf.setting.pulsar else "–")
    if isinstance(leaf.default, bool):
        assert default == str(leaf.default).lower()
    elif leaf.default == "":
        assert default in ("none", "always")
    else:
        assert default.replace(",", "") == (
            leaf.default if isinstance(leaf.default, str) else f"{leaf.default:.12g}"
        )
