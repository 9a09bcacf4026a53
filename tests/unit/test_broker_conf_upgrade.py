"""What an upgrade of Pulsar changes for a broker.conf: keys that it leaves out, the pair of
strategies, and the lines that keep today's behaviour.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.broker_conf.convert import Conversion, convert
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade, as_written
from pulsar_rebalancer.settings.load import resolved
from pulsar_rebalancer.settings.sources import Assignment
from strategies.fold.engine import EngineSettings, placement_of
from strategies.java.pulsar_releases import RELEASE_DEFAULTS, PulsarRelease
from tests.unit.command_line import rebalancer

IMPL = "org.apache.pulsar.broker.loadbalance.impl"
SHEDDING, PLACEMENT = "loadBalancerLoadSheddingStrategy", "loadBalancerLoadPlacementStrategy"
THRESHOLD, AVG = f"{SHEDDING}={IMPL}.ThresholdShedder", f"{SHEDDING}={IMPL}.AvgShedder"
UNIFORM = f"{SHEDDING}={IMPL}.UniformLoadShedder"
STOCK = "loadBalancerEnabled=true"
EVENLY = "loadBalancerDistributeBundlesEvenlyEnabled"
EXTENSIBLE = (
    "loadManagerClassName=org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
)


def written(folder: Path, *lines: str) -> Path:
    file = folder / "broker.conf"
    file.write_text("".join(f"{line}\n" for line in lines), "iso-8859-1")
    return file


def converted(folder: Path, *lines: str, release: PulsarRelease = "4.2") -> Conversion:
    return convert(written(folder, *lines), release)


def upgrade(folder: Path, *lines: str) -> Upgrade:
    return Upgrade(converted(folder, *lines).given, "4.2", "5.0")


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


def test_an_omitted_key_has_the_default_of_the_release(tmp_path: Path) -> None:
    before = engine(converted(tmp_path, STOCK), "4.2")
    after = engine(converted(tmp_path, STOCK, release="5.0"), "5.0")
    assert (before.strategy, after.strategy) == ("threshold", "avg")
    assert (before.filters.distribute_evenly, after.filters.distribute_evenly) == (True, False)


def test_json_has_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, THRESHOLD)
    assert "upgrade" not in rebalancer("config", "from-broker-conf", file, "--json").json
    flags = ("--pulsar", "5.0.1", "--json")
    found = rebalancer("config", "from-broker-conf", file, *flags).json["upgrade"]
    assert (found["from"], found["to"]) == ("4.2", "5.0")
    assert found["lines"] == [f"{EVENLY}=true"]
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
    words = ("config", "from-broker-conf", written(tmp_path, STOCK), "--pulsar")
    answer = rebalancer(*words, "4.2")
    assert "An upgrade to Pulsar 4.2 changes no key that the file leaves out." in answer.out
    for version in ("6.1", "3.0", "5", "5.0 beta?", ""):
        answer = rebalancer(*words, version)
        assert (answer.code, "name 4.2 or 5.0" in answer.words) == (2, True)
