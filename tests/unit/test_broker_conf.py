"""`rebalancer config from-broker-conf`: Java's syntax, what becomes of every key, and what is said
about the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from pulsar_rebalancer.cli.main import app
from pulsar_rebalancer.settings.broker_conf.convert import Conversion, convert
from pulsar_rebalancer.settings.broker_conf.forms import Property, properties_in, read_conf
from pulsar_rebalancer.settings.broker_conf.keys import KEYS
from pulsar_rebalancer.settings.leaves import all_leaves
from pulsar_rebalancer.settings.load import load
from strategies.errors import SettingsError
from strategies.shedding.registry import SHEDDERS

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
EXTENSIBLE = (
    "loadManagerClassName=org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
)


@dataclass(frozen=True)
class Conf:
    """A broker.conf in a folder of its own."""

    file: Path

    def says(self, *lines: str) -> Path:
        self.file.write_text("".join(f"{line}\n" for line in lines), "iso-8859-1")
        return self.file

    def converted(self, *lines: str) -> Conversion:
        return convert(self.says(*lines))


@pytest.fixture
def conf(tmp_path: Path) -> Conf:
    return Conf(tmp_path / "broker.conf")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["config", "from-broker-conf", *map(str, words)])


def complaints_about(file: Path) -> list[str]:
    """What keeps a file from being read."""
    try:
        read_conf(file)
    except SettingsError as error:
        return error.complaints
    return []


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1", [("a", "1")]),
        ("a:1\nb 2\nc\n", [("a", "1"), ("b", "2"), ("c", "")]),
        ("  a =  1  ", [("a", "1  ")]),
        ("# no=1\n  ! no=2\n\n \t\na=1", [("a", "1")]),
        ("a=1\\\n   2\nb=3", [("a", "12"), ("b", "3")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=x\\\n#no comment", [("a", "x#no comment")]),
        ("a\\=b\\ c=1", [("a=b c", "1")]),
        ("a=\\u0041\\t\\q", [("a", "A\tq")]),
        ("a=\\ud83d\\ude00", [("a", "😀")]),
        ("a=1\rb=2\r\nc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a==1", [("a", "=1")]),
        ("a=1\\", [("a", "1")]),
    ],
)
def test_the_syntax_is_that_of_java(text: str, properties: list[tuple[str, str]]) -> None:
    found = properties_in(Path("x.conf"), text)
    assert [(one.key, one.value) for one in found] == properties


def test_lines_are_counted_as_people_count_them(conf: Conf) -> None:
    file = conf.says("# one", "a=1\\", "  2", "", "b=3")
    assert read_conf(file) == [Property("a", "12", 2), Property("b", "3", 5)]


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_named_with_their_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.conf"
    file.write_bytes(data)
    assert all(complaint.startswith(f"{file}:") for complaint in complaints_about(file))


@pytest.mark.parametrize("entry", SHEDDERS.values(), ids=lambda entry: entry.name)
def test_classes_become_names(conf: Conf, entry: Any) -> None:
    manager = EXTENSIBLE if "extensions" in entry.pulsar_class else ""
    found = conf.converted(manager, f"loadBalancerLoadSheddingStrategy={entry.pulsar_class}")
    assert found.settings["shedding.strategy"] == entry.name


def test_what_the_file_does_not_say_is_pulsars_default(conf: Conf) -> None:
    found = conf.converted("loadBalancerEnabled=true")
    assert found.settings["shedding.strategy"] == "threshold"
    assert (
        found.origins["shedding.strategy"] == "Pulsar's default of loadBalancerLoadSheddingStrategy"
    )


def test_a_stock_file_differs_from_our_defaults_in_strategies_alone(conf: Conf) -> None:
    """As Pulsar writes it: whole numbers without a point, truth values small."""
    found = conf.converted(
        *(f"{key.name}={as_pulsar_writes(key.default)}" for key in KEYS.values())
    )
    ours = {leaf.path: leaf.default for leaf in all_leaves()}
    assert found.settings["shedding.strategy"] == "threshold"
    assert [
        path
        for path, value in found.settings.items()
        if ours[path] not in (value, "auto") and not path.endswith(".strategy")
    ] == []


def as_pulsar_writes(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_key_without_effect_is_named_with_its_line(conf: Conf) -> None:
    lines = [
        f"{key.name}={'x' if key.default == '' else str(key.default).lower()}"
        for key in KEYS.values()
        if key.kind != "text"
    ]
    found = conf.converted(*lines)
    idle = [one for one in found.keys if one.result == "no effect"]
    assert idle
    assert all(one.why for one in idle)
    warned = {
        (int(warning.removeprefix(f"{conf.file}:").split(":")[0]), warning.split(": ")[1])
        for warning in found.warnings
    }
    assert warned == {(one.line, one.key.name) for one in idle}
    assert {one.key.name for one in found.keys} == set(KEYS)


def test_every_key_that_a_setting_names_is_known() -> None:
    assert {leaf.setting.pulsar for leaf in all_leaves() if leaf.setting.pulsar} <= set(KEYS)


def test_the_printed_file_is_a_settings_file(conf: Conf, tmp_path: Path) -> None:
    file = conf.says(
        f"loadBalancerLoadSheddingStrategy={IMPL}.AvgShedder",
        "loadBalancerAvgShedderLowThreshold=20",
        "loadBalancerSheddingIntervalMinutes=3",
        "loadBalancerBandwithInResourceWeight=0.25",
    )
    result = run(file)
    assert result.exit_code == 0
    printed = tmp_path / "settings.toml"
    printed.write_text(result.stdout, "utf-8")
    engine = load(printed).engine
    assert (engine.strategy, engine.round.interval_ms, engine.weights.bandwidth_in) == (
        "avg",
        180_000,
        0.25,
    )
    assert getattr(engine.shedding, "low_threshold", None) == 20.0
    assert all(
        name in result.stdout
        for name in KEYS
        if name not in ("loadBalancerBandwithInResourceWeight",)
    )


def test_json_carries_the_same(conf: Conf) -> None:
    result = run(
        conf.says("loadBalancerEnabled=true", "loadBalancerSheddingIntervalMinutes=3"), "--json"
    )
    body = json.loads(result.stdout)
    assert (body["kind"], body["v"], body["settings"]["round.interval_ms"]) == (
        "broker-conf",
        1,
        180_000,
    )
    assert len(body["keys"]) == len(KEYS)
    assert body["warnings"][0].startswith(f"{conf.file}:1: loadBalancerEnabled: no effect: ")
    assert body["warnings"][0] in result.stderr.replace("\n", "")


def test_files_that_are_no_broker_conf_exit_2(conf: Conf, tmp_path: Path) -> None:
    assert "name a broker.conf" in run(conf.says("a=1")).stderr
    assert run(conf.file).exit_code == 2
    assert run(tmp_path / "nowhere").exit_code == 2
    assert run(tmp_path).exit_code == 2
