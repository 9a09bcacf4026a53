"""A broker.conf in all its forms as settings, and what an upgrade of Pulsar changes for it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_rebalancer.settings.broker_conf.convert import Conversion, convert
from pulsar_rebalancer.settings.broker_conf.forms import Property, properties_in, read_conf
from pulsar_rebalancer.settings.broker_conf.keys import KEYS
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade, as_written
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade as upgrade_of
from pulsar_rebalancer.settings.merge_sources import load, resolved
from pulsar_rebalancer.settings.setting_paths import all_leaves
from pulsar_rebalancer.settings.value_sources import Assignment
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings, placement_of
from strategies.java.pulsar_versions_and_defaults import RELEASE_DEFAULTS, PulsarRelease
from strategies.shedding.registry import SHEDDERS
from tests.unit.command_line import Answer, rebalancer

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
EXTENSIBLE = (
    "loadManagerClassName=org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
)
SHEDDING = "loadBalancerLoadSheddingStrategy"
THRESHOLD, AVG = f"{SHEDDING}={IMPL}.ThresholdShedder", f"{SHEDDING}={IMPL}.AvgShedder"
UNIFORM = f"{SHEDDING}={IMPL}.UniformLoadShedder"
STOCK = "loadBalancerEnabled=true"


def written(folder: Path, *lines: str, encoding: str = "iso-8859-1", ends: str = "\n") -> Path:
    file = folder / "broker.conf"
    text = "".join(f"{line}\n" for line in lines)
    file.write_bytes(text.replace("\n", ends).encode(encoding))
    return file


def converted(folder: Path, *lines: str, release: PulsarRelease = "4.2") -> Conversion:
    return convert(written(folder, *lines), release)


def run(*words: object) -> Answer:
    return rebalancer("config", "from-broker-conf", *words)


def complaints_about(file: Path) -> list[str]:
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


def test_lines_are_counted_as_people_count_them(tmp_path: Path) -> None:
    file = written(tmp_path, "# one", "a=1\\", "  2", "", "b=3")
    assert read_conf(file) == [Property("a", "12", 2), Property("b", "3", 5)]


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_named_with_their_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.conf"
    file.write_bytes(data)
    assert all(complaint.startswith(f"{file}:") for complaint in complaints_about(file))


@pytest.mark.parametrize(
    "entry",
    [entry for entry in SHEDDERS.values() if entry.pulsar_class],
    ids=lambda entry: entry.name,
)
def test_classes_become_names(tmp_path: Path, entry: Any) -> None:
    manager = EXTENSIBLE if "extensions" in entry.pulsar_class else ""
    found = converted(tmp_path, manager, f"loadBalancerLoadSheddingStrategy={entry.pulsar_class}")
    assert found.settings["shedding.strategy"] == entry.name


def test_what_the_file_does_not_say_is_pulsars_default(tmp_path: Path) -> None:
    found = converted(tmp_path, STOCK)
    origin = "Pulsar's default of loadBalancerLoadSheddingStrategy"
    assert found.origins["shedding.strategy"] == origin
    before = engine(found, "4.2")
    after = engine(converted(tmp_path, STOCK, release="5.0"), "5.0")
    assert (before.strategy, after.strategy) == ("threshold", "avg")
    assert (before.filters.distribute_evenly, after.filters.distribute_evenly) == (True, False)


def test_a_stock_file_differs_from_our_defaults_in_strategies_alone(tmp_path: Path) -> None:
    """As Pulsar writes it: whole numbers without a point, truth values small."""
    stock = (f"{key.name}={as_pulsar_writes(key.default)}" for key in KEYS.values())
    found = converted(tmp_path, *stock).settings
    ours = {leaf.path: leaf.default for leaf in all_leaves()}
    assert found["shedding.strategy"] == "threshold"
    differing = [path for path, value in found.items() if ours[path] not in (value, "auto")]
    assert [path for path in differing if not path.endswith(".strategy")] == []


def as_pulsar_writes(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_every_key_without_effect_is_named_with_its_line(tmp_path: Path) -> None:
    lines = [
        f"{key.name}={'x' if key.default == '' else str(key.default).lower()}"
        for key in KEYS.values()
        if key.kind != "text"
    ]
    found = converted(tmp_path, *lines)
    idle = [one for one in found.keys if one.result == "no effect"]
    assert idle
    assert all(one.why for one in idle)
    told = [warning.removeprefix(f"{tmp_path}/broker.conf:") for warning in found.warnings]
    warned = {(int(one.split(":")[0]), one.split(": ")[1]) for one in told}
    assert warned == {(one.line, one.key.name) for one in idle}
    assert {one.key.name for one in found.keys} == set(KEYS)


def test_every_key_that_a_setting_names_is_known() -> None:
    assert {leaf.setting.pulsar for leaf in all_leaves() if leaf.setting.pulsar} <= set(KEYS)


def test_the_printed_file_is_a_settings_file(tmp_path: Path) -> None:
    minutes, weight = "SheddingIntervalMinutes=3", "BandwithInResourceWeight=0.25"
    keys = (f"loadBalancer{key}" for key in ("AvgShedderLowThreshold=20", minutes, weight))
    result = run(written(tmp_path, AVG, *keys))
    assert result.code == 0
    printed = tmp_path / "settings.toml"
    printed.write_text(result.out, "utf-8")
    engine = load(printed).engine
    assert (engine.strategy, engine.round.interval_ms) == ("avg", 180_000)
    assert engine.weights.bandwidth_in == 0.25
    assert getattr(engine.shedding, "low_threshold", None) == 20.0
    assert {*KEYS} - {"loadBalancerBandwithInResourceWeight"} <= {*re.findall(r"\w+", result.out)}


def test_json_carries_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, STOCK, "loadBalancerSheddingIntervalMinutes=3")
    result = run(file, "--json")
    body = result.json
    assert (body["kind"], body["v"], "upgrade" in body) == ("broker-conf", 1, False)
    assert body["settings"]["round.interval_ms"] == 180_000
    assert len(body["keys"]) == len(KEYS)
    assert body["warnings"][0].startswith(f"{file}:1: loadBalancerEnabled: no effect: ")
    assert body["warnings"][0] in result.err.replace("\n", "")


def test_files_that_are_no_broker_conf_exit_2(tmp_path: Path) -> None:
    answer = run(written(tmp_path, "a=1"))
    assert (answer.code, "name a broker.conf" in answer.err) == (2, True)
    assert run(tmp_path).code == 2


RUNTIME = {
    "loadBalancerLoadSheddingStrategy": f"{IMPL}.AvgShedder",
    "loadBalancerAvgShedderLowThreshold": "20",
    "loadBalancerSheddingExcludedNamespaces": "[public/functions, tenant-a/ns1]",
    "loadBalancerOverrideBrokerNicSpeedGbps": "Optional.empty",
    "brokerDeduplicationMaxNumberOfProducers": "10000",
    "defaultNamespaceBundleSplitAlgorithm": "null",
}
#: Files of people, by name, after lines `=== name`.
FILES = Path(__file__).parents[1].joinpath("data/broker_conf_forms.txt").read_text("utf-8")
WRITTEN = dict(part.split("\n", 1) for part in FILES.split("=== ")[1:])
FORMS = WRITTEN | {
    "runtime-pretty": json.dumps(RUNTIME, indent=2),
    "runtime-one-line": json.dumps(RUNTIME, separators=(",", ":")),
    "runtime-tabs": json.dumps(RUNTIME, indent="\t"),
    "runtime-columns": "".join(f"{key}    {value}\n" for key, value in RUNTIME.items()),
    "config-map-json": json.dumps(
        {"kind": "ConfigMap", "data": {"broker.conf": WRITTEN["broker.conf"]}}
    ),
    "docker-inspect": json.dumps(
        [{"Config": {"Env": [f"PULSAR_PREFIX_{k}={v}" for k, v in RUNTIME.items()]}}]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_sets_what_it_says(tmp_path: Path, form: str) -> None:
    assert_sets(written(tmp_path, FORMS[form], encoding="utf-8"))


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("form", ["broker.conf", "helm", "whole-file", "runtime-pretty"])
def test_marks_and_ends_of_lines_change_nothing(
    tmp_path: Path, form: str, encoding: str, ends: str
) -> None:
    assert_sets(written(tmp_path, FORMS[form], encoding=encoding, ends=ends))


def assert_sets(file: Path) -> None:
    """The file sets what every one of the forms says, and no key of it is unknown."""
    found = convert(file)
    assert found.settings["shedding.strategy"] == "avg"
    assert found.settings["shedding.avg.low_threshold"] == 20.0
    names = found.settings["limits.excluded_namespaces"].split(",")
    assert [name.strip() for name in names] == ["public/functions", "tenant-a/ns1"]
    assert [warning for warning in found.warnings if "not a key" in warning] == []


@pytest.mark.parametrize("form", ["config-map", "whole-file", "container", "docker-run"])
def test_origins_name_the_line_of_the_file(tmp_path: Path, form: str) -> None:
    file = written(tmp_path, FORMS[form])
    key = "loadBalancerAvgShedderLowThreshold"
    lines = [1 + n for n, line in enumerate(FORMS[form].splitlines()) if key in line]
    first = 1 if form == "docker-run" else lines[0]
    assert convert(file).origins["shedding.avg.low_threshold"] == f"{file}:{first}: {key}"


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000], ids=["flow", "block"])
def test_yaml_that_nests_too_deeply_is_told(tmp_path: Path, text: str) -> None:
    (complaint,) = complaints_about(written(tmp_path, text))
    assert complaint.startswith(f"{tmp_path}")


def test_names_that_stand_for_one_another_are_read_once(tmp_path: Path) -> None:
    """Ten tables, each with ten times the one before, are not ten thousand million keys."""
    tables = ["a0: &a0 {maxUnloadPercentage: 0.5}"]
    tables += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]
    found = read_conf(written(tmp_path, *tables))
    assert [(one.key, one.value) for one in found] == [("maxUnloadPercentage", "0.5")]


def upgrade(folder: Path, *lines: str) -> Upgrade:
    return upgrade_of(converted(folder, *lines).given, "4.2", "5.0")


def test_a_key_that_the_file_sets_survives_whatever_its_value(tmp_path: Path) -> None:
    """Also one that is not converted to a setting."""
    values = {key: differs.values["5.0"] for key, differs in RELEASE_DEFAULTS.items()}
    found = upgrade(tmp_path, *(f"{key}={as_written(value)}" for key, value in values.items()))
    assert (found.omitted, found.lines, found.other_lines) == ((), (), ())


def test_the_system_namespace_keeps_the_number_of_any_other(tmp_path: Path) -> None:
    found = upgrade(tmp_path, "defaultNumberOfNamespaceBundles=16")
    assert "defaultNumberOfSystemNamespaceBundles=16" in found.other_lines


@pytest.mark.parametrize("lines", [(STOCK,), (THRESHOLD,), (AVG,), (UNIFORM,)])
def test_the_lines_lead_to_the_settings_of_today(tmp_path: Path, lines: tuple[str, ...]) -> None:
    keep = upgrade(tmp_path, *lines).lines
    before = engine(converted(tmp_path, *lines), "4.2")
    after = engine(converted(tmp_path, *lines, *keep, release="5.0"), "5.0")
    assert placement_of(before) == placement_of(after)
    assert replace(before, placement="auto", pulsar_version="5.0") == replace(
        after, placement="auto"
    )


def engine(conversion: Conversion, release: PulsarRelease) -> EngineSettings:
    """What decisions depend on, in parity mode."""
    given = {**conversion.settings, "pulsar.version": release, "shedding.mode": "parity"}
    return resolved([Assignment(path, value, "file", "") for path, value in given.items()]).engine


def test_json_has_the_same(tmp_path: Path) -> None:
    flags = ("--pulsar", "5.0.1", "--json")
    found = run(written(tmp_path, THRESHOLD), *flags).json["upgrade"]
    assert (found["from"], found["to"]) == ("4.2", "5.0")
    assert found["lines"] == ["loadBalancerDistributeBundlesEvenlyEnabled=true"]
    assert found["strategies"]["5.0"] == {
        "shedding": f"{IMPL}.ThresholdShedder",
        "placement": f"{IMPL}.LeastLongTermMessageRate",
        "starts": True,
    }
    assert found["omitted"][1] == {
        "key": "maxUnloadPercentage",
        "before": 0.2,
        "after": 0.5,
        "effect": "no effect: ThresholdShedder does not use it",
        "changes": False,
        "balancing": True,
        "keep": None,
    }


def test_the_version_of_today_changes_nothing_and_another_one_is_not_known(tmp_path: Path) -> None:
    file = written(tmp_path, STOCK)
    unchanged = "An upgrade to Pulsar 4.2 changes no key that the file leaves out."
    assert unchanged in run(file, "--pulsar", "4.2").out
    for version in ("6.1", "3.0", "5", "5.0 beta?", ""):
        answer = run(file, "--pulsar", version)
        assert (answer.code, "name 4.2 or 5.0" in answer.words) == (2, True)
