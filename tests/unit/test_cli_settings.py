"""Settings: who wins, what is refused and how it is said, and their schema."""

import dataclasses
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_rebalancer.settings.check_values import json_schema
from pulsar_rebalancer.settings.merge_sources import load
from pulsar_rebalancer.settings.setting_paths import REMOVED, all_leaves
from sinks.topics.topic_settings import Connections
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from strategies.shedding.registry import SHEDDERS
from streaming.settings import JobSettings
from tests.unit.command_line import rebalancer

ROOT = Path(__file__).parents[2]


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    file = folder / "settings.toml"
    file.write_text(text, encoding)
    return file


def complaints_about(file: Path) -> list[str]:
    try:
        load(file)
    except SettingsError as error:
        return error.complaints
    return []


def test_without_any_source_everything_is_at_the_default_of_its_class() -> None:
    made = load()
    assert made.engine == EngineSettings(shedding=SHEDDERS["steady"].settings())
    assert made.job == JobSettings()
    assert {entry.kind for entry in made.entries} == {"default"}


def test_settings_of_the_chosen_strategy_reach_the_engine(tmp_path: Path) -> None:
    chosen = '[shedding]\nstrategy = "threshold"\nmode = "parity"\n'
    text = f"{chosen}[shedding.threshold]\nhistory = 0.5\n[shedding.avg]\nlow_threshold = 3"
    engine = load(written(tmp_path, text)).engine
    assert (engine.strategy, engine.mode) == ("threshold", "parity")
    assert engine.shedding == SHEDDERS["threshold"].settings(history=0.5)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[round]\nepoch = 1\n# \xff", ":3: not UTF-8; save the file as UTF-8"),
        (b"a = " + b"[" * 9000, ":1: nested too deeply to be settings"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, content: bytes, told: str
) -> None:
    file = tmp_path / "settings.toml"
    file.write_bytes(content)
    assert complaints_about(file) == [f"{file}{told}"]


def test_one_setting_decides_for_telemetry_on_any_topic() -> None:
    made = load(flags=["job.fail_on_data_loss=false"]).connections
    assert [one.fail_on_data_loss for one in (made.files, made.kafka, made.pulsar)] == [False] * 3


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    assert load(written(tmp_path, "[round]\nepoch = 7", "utf-8-sig")).engine.round.epoch == 7


VALUES = """1 -1 nan '' 'avg' [] {} {a=1} true 1e400 1979-05-27 [[1]] x"""
KEYS = "round round.epoch shedding shedding.strategy weights.cpu topics.rounds 'a.b' job \"\""


@pytest.mark.heavy
@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.sampled_from(KEYS.split()), st.sampled_from(VALUES.split()), max_size=4),
    st.binary(max_size=20),
)
def test_any_file_is_either_read_or_refused_with_complaints(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str], noise: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    content = "\n".join(f"{key} = {value}" for key, value in values.items()).encode()
    for data in (content, content + b"\n" + noise):
        file.write_bytes(data)
        assert all(": " in complaint for complaint in complaints_about(file))


def test_variables_of_other_programs_are_no_settings() -> None:
    mine = load(environment={"PULSAR__ATTEMPTS": "5", "serve__rounds": "5", "wire.kept_bytes": "5"})
    assert {entry.kind for entry in mine.entries} == {"default"}


def test_each_setting_says_what_it_is_and_none_of_them_is_a_removed_one() -> None:
    leaves = all_leaves()
    of_strategies = Counter(
        name for leaf in leaves for name in SHEDDERS if leaf.path.startswith(f"shedding.{name}.")
    )
    others = len(leaves) - of_strategies.total()
    assert others <= 146, "a new setting replaces one that users change less"
    assert max(of_strategies.values()) <= 12, "a strategy has few settings"
    assert all(leaf.setting.text.rstrip(".") == leaf.setting.text != "" for leaf in leaves)
    assert not REMOVED.keys() & {leaf.path for leaf in leaves}


@pytest.mark.heavy
def test_the_schema_accepts_and_refuses_as_the_settings_do() -> None:
    schema = json_schema(all_leaves())
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    right = {"round": {"epoch": 2}, "shedding": {"strategy": "avg", "avg": {"low_threshold": 1.5}}}
    assert validator.is_valid(right)
    wrong: tuple[object, ...] = (
        {"rounds": {}},
        {"round": {"epoch": 0}},
        {"shedding": {"avg": {"low": 1}}},
        {"weights": {"cpu": "1"}},
    )
    assert [one for one in wrong if validator.is_valid(one)] == []


def test_config_show_tells_value_and_origin() -> None:
    given = {"REBALANCER_ROUND__EPOCH": "4"}
    shown = rebalancer("config", "show", "--changed", "--json", env=given).json
    assert (shown["kind"], shown["v"]) == ("settings", 1)
    (only,) = shown["settings"]
    expected = {"path": "round.epoch", "value": 4, "default": 1, "from": "env"}
    assert only == only | expected | {"source": "REBALANCER_ROUND__EPOCH"}


@pytest.mark.heavy
@pytest.mark.parametrize("columns", ["80", "120"])
def test_config_show_fits_the_terminal(columns: str) -> None:
    answer = rebalancer("config", "show", env={"COLUMNS": columns})
    assert "interval_ms" in answer.out
    assert "loadBalancerSheddingGracePeriodMinutes" in answer.out
    assert max(len(line) for line in answer.out.splitlines()) <= int(columns)


def test_config_check_of_a_good_and_a_bad_file(tmp_path: Path) -> None:
    file = written(tmp_path, "[round]\nepoch = 2")
    good = rebalancer("config", "check", file, env={"REBALANCER_ROUND__EPOCH": "wrong"})
    assert (good.code, good.err) == (0, "")
    assert "valid, sets 1 of" in good.out
    bad = rebalancer("config", "check", written(tmp_path, "[round]\nepoch = 0\nx = 1"))
    assert (bad.code, bad.out) == (2, "")
    assert [line.split(": ")[1] for line in bad.err.splitlines()] == ["round.x", "round.epoch"]


def test_the_job_shares_the_connections_and_each_of_their_tables_is_read() -> None:
    flags = (
        "topics.rounds=file:///r",
        "wire.max_record_bytes=2000000",
        "files.retention_hours=48",
        "kafka.outage_ms=7000",
        "pulsar.cluster=c",
        "source.format=raw",
    )
    made = load(flags=(*flags, "signing.key_file=/key"))
    shared = [field.name for field in dataclasses.fields(Connections)]
    assert made.job.connections is made.connections
    assert all(getattr(made.connections, name) != getattr(Connections(), name) for name in shared)
