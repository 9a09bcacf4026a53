"""What is known of a strategy stands in its folder and in the registry: every other place that
writes its name is counted here.
"""

from functools import cache
from pathlib import Path

import pytest

from strategies.placement.contract import PlacementStrategy
from strategies.placement.registry import MODULES, PLACERS
from strategies.shedding.contract import SheddingStrategy
from strategies.shedding.registry import FOLDERS, SHEDDERS
from tests.architecture.command_line import ROOT
from tests.architecture.layers import PACKAGES, imports, modules, parsed
from tests.architecture.strategy_names import Words, words_of

REGISTRY = "strategies/shedding/registry.py"
#: Adapters of the test vectors of Pulsar's own classes, and Pulsar's own keys and defaults: a
#: strategy that is not Pulsar's has neither.
PULSARS = (
    "pulsar_rebalancer/lab/conformance/",
    "pulsar_rebalancer/settings/broker_conf/keys.py",
    "pulsar_rebalancer/settings/broker_conf/service_configuration.py",
    "pulsar_rebalancer/settings/broker_conf/upgrade.py",
    "strategies/java/pulsar_versions_and_defaults.py",
)
#: Uses the model of load and the bounds of SteadyShedder, which hold for every strategy.
ADVICE = "pulsar_rebalancer/lab/advise/"
#: The same word for something else.
HOMONYMS = {
    "avg": {
        "strategies/placement/avg.py": "the placement of this name, which reads the plan of the "
        "strategy",
    },
}


def test_a_line_of_a_registry_is_the_name_of_the_entry_in_its_module() -> None:
    assert [*SHEDDERS] == [*FOLDERS]
    assert [*PLACERS] == [*MODULES]
    assert {*map(type, SHEDDERS.values())} == {SheddingStrategy}
    assert {*map(type, PLACERS.values())} == {PlacementStrategy}


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", SHEDDERS)
def test_a_strategy_is_named_in_its_folder_and_in_the_registry_alone(strategy: str) -> None:
    own = f"strategies/shedding/{strategy}/"
    places = {
        path: lines
        for file in (one for package in PACKAGES for one in modules(ROOT / package))
        if not (path := file.relative_to(ROOT).as_posix()).startswith((own, ADVICE, *PULSARS))
        and path not in HOMONYMS.get(strategy, {})
        and (lines := _words(file).naming(strategy, SHEDDERS[strategy].java_class, SHEDDERS))
    }

    assert list(places) == [REGISTRY], places


@cache
def _words(file: Path) -> Words:
    return words_of(parsed(file))


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", SHEDDERS)
def test_nothing_of_a_strategy_is_imported_outside_its_folder(strategy: str) -> None:
    package = f"strategies.shedding.{strategy}"
    places = {
        path
        for file in modules(ROOT / "strategies")
        for item in imports(file, parsed(file))
        if item.name.startswith(f"{package}.")
        and not (path := file.relative_to(ROOT).as_posix()).startswith(package.replace(".", "/"))
    }

    assert places == {*HOMONYMS.get(strategy, {})}
