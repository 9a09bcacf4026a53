"""The tables of docs/STRATEGIES.md about limits, advice, filters, splits and placement: every
setting, its Pulsar key, its default.
"""

from __future__ import annotations

import re

import pytest

from pulsar_rebalancer.settings.leaves import Leaf, all_leaves
from tests.unit.strategies_page import PAGE, rows

SECTIONS = {
    "limits": "## Limits",
    "capacities": "## What brokers are compared by",
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


def shown_newer(leaf: Leaf) -> str:
    """The default of the newest Pulsar release, if it differs."""
    if not leaf.defaults:
        return ""
    value = leaf.defaults["5.0"]
    return f" (5.0: {str(value).lower() if isinstance(value, bool) else f'{value:g}'})"


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.path)
def test_a_setting_stands_in_its_table(leaf: Leaf) -> None:
    default, key = told(leaf)
    assert key == (f"`{leaf.setting.pulsar}`" if leaf.setting.pulsar else "–")
    newer = shown_newer(leaf)
    assert default.endswith(newer)
    default = default.removesuffix(newer)
    if isinstance(leaf.default, bool):
        assert default == str(leaf.default).lower()
    elif leaf.default == "":
        assert default in ("none", "always")
    else:
        assert default.replace(",", "") == (
            leaf.default if isinstance(leaf.default, str) else f"{leaf.default:.12g}"
        )


@pytest.mark.parametrize("strategy", ["avg", "uniform"])
def test_the_tables_of_strategies_have_the_default_of_the_newest_release(strategy: str) -> None:
    changed = [
        leaf for leaf in all_leaves() if leaf.section == f"shedding.{strategy}" and leaf.defaults
    ]

    assert [leaf.key for leaf in changed] == ["max_unload"]
    for leaf in changed:
        assert [row[1] for row in rows(PAGE) if row[:1] == [f"`{leaf.key}`"]] == [
            f"{leaf.default:g}{shown_newer(leaf)}"
        ] * 2
