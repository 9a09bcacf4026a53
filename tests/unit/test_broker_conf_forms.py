"""The keys of a broker.conf in the files that people have: variables of images, YAML, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.broker_conf.convert import convert
from pulsar_rebalancer.settings.broker_conf.forms import read_conf
from strategies.errors import SettingsError

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
#: What each of the files below sets.
SET = {"shedding.strategy": "avg", "shedding.avg.low_threshold": 20.0}
PROTECTED = ["public/functions", "tenant-a/ns1"]

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


def write(folder: Path, text: str, encoding: str = "utf-8", ends: str = "\n") -> Path:
    """A file with this text."""
    file = folder / "broker.txt"
    file.write_bytes(text.replace("\n", ends).encode(encoding))
    return file


@pytest.mark.parametrize("form", FORMS)
def test_each_form_sets_what_it_says(tmp_path: Path, form: str) -> None:
    assert_sets(write(tmp_path, FORMS[form]))


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("form", ["broker.conf", "helm", "whole-file", "runtime-pretty"])
def test_marks_and_ends_of_lines_change_nothing(
    tmp_path: Path, form: str, encoding: str, ends: str
) -> None:
    assert_sets(write(tmp_path, FORMS[form], encoding, ends))


def assert_sets(file: Path) -> None:
    """The file sets what every one of the forms says, and no key of it is unknown."""
    found = convert(file)
    assert {path: found.settings[path] for path in SET} == SET
    names = found.settings["limits.excluded_namespaces"].split(",")
    assert [name.strip() for name in names] == PROTECTED
    assert [warning for warning in found.warnings if "not a key" in warning] == []


@pytest.mark.parametrize("form", ["config-map", "whole-file", "container", "docker-run"])
def test_origins_name_the_line_of_the_file(tmp_path: Path, form: str) -> None:
    file = write(tmp_path, FORMS[form])
    key = "loadBalancerAvgShedderLowThreshold"
    lines = FORMS[form].splitlines()
    first = (
        1 if form == "docker-run" else 1 + next(n for n, line in enumerate(lines) if key in line)
    )

    assert convert(file).origins["shedding.avg.low_threshold"] == f"{file}:{first}: {key}"


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000], ids=["flow", "block"])
def test_yaml_that_nests_too_deeply_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_conf(write(tmp_path, text))

    assert caught.value.complaints[0].startswith(f"{tmp_path}")


def test_names_that_stand_for_one_another_are_read_once(tmp_path: Path) -> None:
    """Ten tables, each with ten times the one before, are not ten thousand million keys."""
    tables = ["a0: &a0 {maxUnloadPercentage: 0.5}"]
    tables += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11)]

    found = read_conf(write(tmp_path, "\n".join(tables)))

    assert [(one.key, one.value) for one in found] == [("maxUnloadPercentage", "0.5")]
