"""Defaults and bounds of all settings are those of settings.txt, and editors have their schema;
`make golden` rewrites both. A changed default changes decisions.
"""

from pathlib import Path

from pulsar_rebalancer.settings.setting_paths import Leaf, all_leaves
from tests.architecture.command_line import ROOT
from tests.golden.printed import compare
from tests.unit.command_line import rebalancer

_FILE = Path(__file__).with_name("settings.txt")


def line(leaf: Leaf) -> str:
    low, high = (
        "" if bound is None else f"{bound:.17g}" for bound in (leaf.setting.ge, leaf.setting.le)
    )
    bounds = f" ({low} to {high})" if low or high else ""
    later = {release: value for release, value in leaf.defaults.items() if value != leaf.default}
    newer = "".join(f"; Pulsar {release}: {value!r}" for release, value in later.items())
    return f"{leaf.path} = {leaf.default!r}{bounds}{newer}"


def test_defaults_and_bounds_are_those_of_the_file(rewrite: bool) -> None:
    printed = "".join(f"{line(leaf)}\n" for leaf in all_leaves())
    compare(_FILE, [printed], rewrite)


def test_the_schema_in_the_documentation_is_that_of_the_settings(rewrite: bool) -> None:
    schema = ROOT / "docs" / "schemas" / "settings.schema.json"
    compare(schema, [rebalancer("config", "schema").out], rewrite)
