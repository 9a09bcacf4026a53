"""What is known of a strategy stands in its folder and in the registry: every other place that
writes its name is counted here.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from strategies.shedding.registry import SHEDDERS
from tests.architecture.command_line import ROOT
from tests.architecture.layers import PACKAGES, imported_names, modules, nodes, parsed

REGISTRY = "strategies/shedding/registry.py"
#: Adapters of the test vectors of Pulsar's own classes, and Pulsar's own keys and defaults: a
#: strategy that is not Pulsar's has neither.
PULSARS = (
    "pulsar_rebalancer/lab/conformance/",
    "pulsar_rebalancer/settings/broker_conf/keys.py",
    "pulsar_rebalancer/settings/broker_conf/service_configuration.py",
    "pulsar_rebalancer/settings/broker_conf/upgrade.py",
    "strategies/java/pulsar_releases.py",
)
#: The same word for something else.
HOMONYMS = {
    "threshold": {"strategies/shedding/contract.py": "what reports call a limit"},
    "avg": {
        "strategies/placement/registry.py": "the placement of this name",
        "strategies/placement/avg.py": "the placement of this name, which reads "
        "the plan of the strategy",
    },
    "overload": {
        "pulsar_rebalancer/lab/tables/simulate/tables.py": "a figure: minutes of overload"
    },
    "transfer": {},
}


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", SHEDDERS)
def test_a_strategy_is_named_in_its_folder_and_in_the_registry_alone(strategy: str) -> None:
    own = f"strategies/shedding/{strategy}/"
    places = {
        path: lines
        for file in (one for package in PACKAGES for one in modules(ROOT / package))
        if not (path := file.relative_to(ROOT).as_posix()).startswith((own, *PULSARS))
        and path not in HOMONYMS.get(strategy, {})
        and (lines := [line for line, text in words(parsed(file)) if names(strategy, text)])
    }

    assert list(places) == [REGISTRY], places


def names(strategy: str, text: str) -> bool:
    """Whether a string or identifier means the strategy; `transfer` alone is an action of
    commands.
    """
    whole = strategy if strategy != "transfer" else "shedding.transfer"
    of_class = SHEDDERS[strategy].java_class
    return (
        text == whole or of_class in text or re.search(rf"shedding\.{strategy}\b", text) is not None
    )


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is no docstring, of every imported name, and of
    identifiers that are class names.
    """
    docstrings = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    for node in nodes(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text
            case ast.Import() | ast.ImportFrom():
                yield from ((node.lineno, name) for name in imported_names(node))
            case ast.Name(id=text) | ast.Attribute(attr=text) if text[:1].isupper():
                yield node.lineno, text
