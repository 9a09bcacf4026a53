"""`pulsar.version`: one line selects the defaults of a Pulsar release, and values of a source stay
over them.
"""

from pathlib import Path

import pytest

from pulsar_rebalancer.lab.report.page import shown_settings
from pulsar_rebalancer.settings.broker_conf.keys import KEYS
from pulsar_rebalancer.settings.merge_sources import Settings, load
from pulsar_rebalancer.settings.setting_paths import all_leaves
from pulsar_rebalancer.settings.value_sources import SettingEntry
from strategies.fold.engine import Engine, EngineSettings, placement_of, rules_of
from strategies.java.pulsar_versions_and_defaults import RELEASE_DEFAULTS
from strategies.placement.registry import PLACERS
from strategies.shedding.registry import SHEDDERS


def entry(made: Settings, path: str) -> SettingEntry:
    return next(one for one in made.entries if one.leaf.path == path)


def test_without_telemetry_auto_is_the_oldest_version() -> None:
    assert load().value("pulsar.version") == "auto"
    assert load().engine.pulsar_version == "4.2"
    assert entry(load(), "shedding.avg.max_unload").source == "default of 4.2"


def test_a_value_of_a_source_stays_wherever_the_version_is_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[shedding]\nstrategy = "avg"\n[shedding.avg]\nmax_unload = 0.2\n', "utf-8")
    made = load(file, {"REBALANCER_PULSAR__VERSION": "5.0"})
    assert made.engine.pulsar_version == "5.0"
    assert made.engine.shedding == SHEDDERS["avg"].settings(max_unload=0.2)
    assert entry(made, "shedding.avg.max_unload").kind == "file"
    other = entry(made, "shedding.uniform.max_unload")
    assert (other.value, other.kind, other.source) == (0.5, "default", "default of 5.0")


def test_settings_move_to_another_version_as_if_loaded_with_it() -> None:
    flags = ["shedding.strategy=avg", "filters.distribute_evenly=true"]
    moved = load(flags=flags).in_release("5.0")
    assert moved.engine == load(flags=[*flags, "pulsar.version=5.0"]).engine
    assert moved.engine.filters.distribute_evenly is True
    assert moved.in_release("4.2").engine == load(flags=flags).engine


def test_the_engine_takes_the_defaults_of_the_version_where_nothing_is_given() -> None:
    settings = EngineSettings("avg", pulsar_version="5.0")
    assert settings.chosen == SHEDDERS["avg"].settings(max_unload=0.5)
    assert EngineSettings("avg").chosen == SHEDDERS["avg"].settings(max_unload=0.2)
    Engine(settings)


@pytest.mark.parametrize(
    ("strategy", "version", "evenly"),
    [
        ("avg", "4.2", True),
        ("avg", "5.0", False),
        ("steady", "4.2", False),
        ("steady", "5.0", False),
    ],
)
def test_bundles_are_spread_by_number_where_pulsar_does_it(
    strategy: str, version: str, evenly: bool
) -> None:
    flags = [f"shedding.strategy={strategy}", f"pulsar.version={version}"]
    as_word = "filters.distribute_evenly=auto"
    for given in (flags, [*flags, as_word]):
        rules = rules_of(load(flags=given).engine)
        assert rules.destinations.filters.distributes_evenly is evenly


def test_the_defaults_of_our_classes_are_those_of_the_oldest_version() -> None:
    in_words = {"auto": True}
    with_two = [leaf for leaf in all_leaves() if leaf.defaults]
    assert with_two
    for leaf in with_two:
        key = leaf.setting.pulsar
        assert key is not None
        ours = in_words.get(leaf.default, leaf.default)
        assert ours == RELEASE_DEFAULTS[key].values["4.2"]
        assert leaf.default_in("5.0") == RELEASE_DEFAULTS[key].values["5.0"]


def test_the_table_and_the_keys_of_a_broker_conf_agree() -> None:
    both = (RELEASE_DEFAULTS.keys() & KEYS.keys()) - {"loadManagerMigrationEnabled"}
    assert "maxUnloadPercentage" in both
    for key in both:
        assert KEYS[key].default == RELEASE_DEFAULTS[key].values["4.2"], key


@pytest.mark.parametrize(
    ("strategy", "version", "mode", "placed_by"),
    [
        ("threshold", "5.0", "parity", "least_long_term_rate"),
        ("avg", "5.0", "parity", "avg"),
        ("threshold", "5.0", "fixed", "avg"),
        ("threshold", "4.2", "parity", "avg"),
    ],
)
def test_a_placement_that_sheds_places_only_for_itself_from_50_on(
    strategy: str, version: str, mode: str, placed_by: str
) -> None:
    flags = [
        f"shedding.strategy={strategy}",
        f"pulsar.version={version}",
        f"shedding.mode={mode}",
        "placement.strategy=avg",
        "placement.least_long_term_rate.overloaded_percent=70",
    ]
    made = load(flags=flags)
    name, placing = placement_of(made.engine)
    assert name == placed_by
    assert len(made.warnings) == (placed_by != "avg")
    if placed_by != "avg":
        assert placing == PLACERS[placed_by].settings(overloaded_percent=70)


def test_shedding_by_avg_with_another_placement_does_not_use_the_plan() -> None:
    flags = ["shedding.strategy=avg", "pulsar.version=5.0", "shedding.mode=parity"]
    made = load(flags=[*flags, "placement.strategy=least_resource_usage"])
    assert placement_of(made.engine)[0] == "least_resource_usage"
    assert made.warnings == []


def test_a_report_shows_the_release_that_is_not_the_usual_one() -> None:
    assert "pulsar.version" not in shown_settings(load())
    assert shown_settings(load().in_release("5.0"))["pulsar.version"] == "5.0"
    assert shown_settings(load(flags=["pulsar.version=4.2"]))["pulsar.version"] == "4.2"
