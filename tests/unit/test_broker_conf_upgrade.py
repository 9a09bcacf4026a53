"""What an upgrade of Pulsar changes for a broker.conf: keys that it leaves out, the pair of
strategies, and the lines that keep today's behaviour.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.broker_conf.convert import Conversion, convert
from pulsar_rebalancer.settings.broker_conf.upgrade import (
    OmittedKey,
    Upgrade,
    as_written,
    upgrade_of,
)
from pulsar_rebalancer.settings.load import resolved
from pulsar_rebalancer.settings.sources import Assignment
from strategies.fold.engine import EngineSettings, placement_of
from strategies.java.release_defaults import RELEASE_DEFAULTS, PulsarRelease
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
    return upgrade_of(converted(folder, *lines).given, "4.2", "5.0")


def omitted(found: Upgrade, key: str) -> OmittedKey:
    return next(one for one in found.omitted if one.key == key)


def classes(found: Upgrade) -> list[tuple[str, str]]:
    return [
        (pair.shedding.rpartition(".")[2], pair.placement.rpartition(".")[2])
        for pair in found.pairs
    ]


def test_a_stock_file_relies_on_every_default_that_differs(tmp_path: Path) -> None:
    found = upgrade(tmp_path, STOCK)
    assert [one.key for one in found.omitted] == list(RELEASE_DEFAULTS)
    assert classes(found) == [
        ("ThresholdShedder", "LeastLongTermMessageRate"),
        ("AvgShedder", "AvgShedder"),
    ]
    assert found.lines == (
        THRESHOLD,
        f"{PLACEMENT}={IMPL}.LeastLongTermMessageRate",
        "maxUnloadPercentage=0.2",
        f"{EVENLY}=true",
    )
    assert found.remarks == ()


def test_a_key_that_the_file_sets_survives_whatever_its_value(tmp_path: Path) -> None:
    """Also one that is not converted to a setting."""
    values = {key: differs.values["5.0"] for key, differs in RELEASE_DEFAULTS.items()}
    found = upgrade(tmp_path, *(f"{key}={as_written(value)}" for key, value in values.items()))
    assert (found.omitted, found.lines, found.other_lines) == ((), (), ())


def test_whoever_sets_only_the_shedding_strategy_keeps_the_pair(tmp_path: Path) -> None:
    found = upgrade(tmp_path, THRESHOLD)
    assert classes(found) == [("ThresholdShedder", "LeastLongTermMessageRate")] * 2
    assert found.remarks == (
        "Pulsar 5.0: AvgShedder places only where it sheds too, and ThresholdShedder sheds: "
        "LeastLongTermMessageRate places instead",
    )
    assert not omitted(found, PLACEMENT).changes
    assert omitted(found, "maxUnloadPercentage").effect == (
        "no effect: ThresholdShedder does not use it"
    )
    assert found.lines == (f"{EVENLY}=true",)


def test_whoever_sets_only_the_placement_gets_another_shedder_that_plans_in_vain(
    tmp_path: Path,
) -> None:
    found = upgrade(tmp_path, f"{PLACEMENT}={IMPL}.LeastResourceUsageWithWeight")
    assert classes(found) == [
        ("ThresholdShedder", "LeastResourceUsageWithWeight"),
        ("AvgShedder", "LeastResourceUsageWithWeight"),
    ]
    assert found.remarks == (
        "Pulsar 5.0: AvgShedder sheds and LeastResourceUsageWithWeight places: the destinations "
        "that AvgShedder plans are not used",
    )


def test_avg_shedder_alone_becomes_its_own_placement(tmp_path: Path) -> None:
    found = upgrade(tmp_path, AVG)
    assert classes(found) == [
        ("AvgShedder", "LeastLongTermMessageRate"),
        ("AvgShedder", "AvgShedder"),
    ]
    assert f"{PLACEMENT}={IMPL}.LeastLongTermMessageRate" in found.lines


def test_avg_shedder_as_both_has_other_rules_that_no_line_keeps(tmp_path: Path) -> None:
    found = upgrade(tmp_path, AVG, f"{PLACEMENT}={IMPL}.AvgShedder")
    (remark,) = found.remarks
    assert "no key keeps the rule of the other release" in remark


def test_a_pair_with_which_4_2_does_not_start(tmp_path: Path) -> None:
    found = upgrade(tmp_path, f"{PLACEMENT}={IMPL}.AvgShedder")
    assert [pair.starts for pair in found.pairs] == [False, True]
    assert found.remarks[0] == (
        "Pulsar 4.2: AvgShedder places only where it sheds too, and ThresholdShedder sheds: the "
        "load manager does not start"
    )


def test_uniform_load_shedder_reads_the_larger_part_too(tmp_path: Path) -> None:
    found = upgrade(tmp_path, UNIFORM)
    assert omitted(found, "maxUnloadPercentage").effect == (
        "UniformLoadShedder moves up to 50 % of the difference of two brokers in one round"
    )


def test_the_extensible_load_manager_balances_as_before(tmp_path: Path) -> None:
    found = upgrade(tmp_path, EXTENSIBLE)
    assert found.pairs[0] == found.pairs[1]
    assert found.lines == ()
    assert "defaultNumberOfNamespaceBundles=4" in found.other_lines
    (remark, _) = upgrade(tmp_path, EXTENSIBLE, THRESHOLD).remarks
    assert "TransferShedder sheds" in remark


def test_the_system_namespace_keeps_the_number_of_any_other(tmp_path: Path) -> None:
    found = upgrade(tmp_path, "defaultNumberOfNamespaceBundles=16")
    assert omitted(found, "defaultNumberOfSystemNamespaceBundles").keep == 16


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


def test_the_command_shows_keys_effects_strategies_and_lines(tmp_path: Path) -> None:
    file = written(tmp_path, THRESHOLD)
    without = rebalancer("config", "from-broker-conf", file)
    answer = rebalancer("config", "from-broker-conf", file, "--pulsar", "5.0")
    assert answer.code == 0, answer.err
    assert answer.out.startswith(without.out)
    assert answer.out.removeprefix(without.out).splitlines()[1:] == [
        "# Not set in the file, and another default in Pulsar 5.0 (value in 4.2 -> value in 5.0):",
        "#   loadBalancerLoadPlacementStrategy: LeastLongTermMessageRate -> AvgShedder  "
        "(LeastLongTermMessageRate still places: AvgShedder places only where it sheds too, and "
        "ThresholdShedder sheds: LeastLongTermMessageRate places instead)",
        "#   maxUnloadPercentage: 0.2 -> 0.5  (no effect: ThresholdShedder does not use it)",
        "#   loadBalancerDistributeBundlesEvenlyEnabled: true -> false  (the bundles of a "
        "namespace are no longer spread evenly by number (those of pulsar/system always are))",
        "#   defaultNumberOfNamespaceBundles: 4 -> 32  (a new namespace has 32 bundles; existing "
        "ones keep theirs)",
        "#   defaultNumberOfSystemNamespaceBundles: – -> 64  (pulsar/system has 64 bundles if it "
        "is created again)",
        "#   loadManagerMigrationEnabled: – -> false  (a new key; it changes nothing while it is "
        "false)",
        "#   dispatcherMaxReadBatchSize: 100 -> 500  (a dispatcher reads up to 500 entries at a "
        "time)",
        "#   dispatcherDispatchMessagesInSubscriptionThread: true -> false  (the messages of "
        "a subscription are dispatched by the thread that reads them)",
        "",
        "# Strategies:",
        "#   Pulsar 4.2: ThresholdShedder sheds, LeastLongTermMessageRate places",
        "#   Pulsar 5.0: ThresholdShedder sheds, LeastLongTermMessageRate places",
        "#   Pulsar 5.0: AvgShedder places only where it sheds too, and ThresholdShedder sheds: "
        "LeastLongTermMessageRate places instead",
        "",
        "# These lines in broker.conf keep today's load balancing after the upgrade:",
        "#   loadBalancerDistributeBundlesEvenlyEnabled=true",
    ]


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


def test_the_version_of_today_changes_nothing(tmp_path: Path) -> None:
    answer = rebalancer("config", "from-broker-conf", written(tmp_path, STOCK), "--pulsar", "4.2")
    assert "An upgrade to Pulsar 4.2 changes no key that the file leaves out." in answer.out


@pytest.mark.parametrize("version", ["6.1", "3.0", "5", "5.0 beta?", ""])
def test_a_version_that_is_not_known_is_a_sentence(tmp_path: Path, version: str) -> None:
    file = written(tmp_path, STOCK)
    answer = rebalancer("config", "from-broker-conf", file, "--pulsar", version)
    assert answer.code == 2
    assert answer.err == (
        f"error: --pulsar: the rules and defaults of Pulsar {version!r} are not known; name 4.2 or "
        "5.0\n"
    )
