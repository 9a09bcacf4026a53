"""`rebalancer --help` and the help of questions to recordings and models answer at once, because
they load neither Spark nor numpy nor a client library, nor our own code that decides.
"""

import pytest

from pulsar_rebalancer.cli.main import ELSEWHERE
from tests.python_process import python

HEAVY = {
    "pyspark",
    "py4j",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "kafka",
    "pulsar",
    "httpcore",
    "httpx",
    "strategies.fold.engine",
    "pulsar_rebalancer.settings.merge_sources",
    "pulsar_rebalancer.lab.simulation.broker_measurements",
}
#: The commands whose help is as quick as the list of commands.
INSTANT = ["jars", *(name for name, module in ELSEWHERE.items() if ".lab." in module)]

#: Runs the entry point with --help in a fresh interpreter and prints what was loaded afterwards.
WHAT_HELP_LOADS = """
import sys
from pulsar_rebalancer.cli.main import main
sys.argv = ["rebalancer", *sys.argv[1:], "--help"]
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
print("loaded:", *sys.modules)
"""


@pytest.mark.parametrize("command", [None, *INSTANT])
def test_help_loads_nothing_heavy(command: str | None) -> None:
    words = [] if command is None else [command]
    help_text, _, loaded = python(WHAT_HELP_LOADS, *words).partition("loaded:")
    assert help_text.startswith(" ".join(["Usage: rebalancer", *words]))
    assert "pulsar_rebalancer" in loaded.split()
    # Typer itself loads pydantic for the options of a command.
    assert HEAVY & set(loaded.split()) <= (set() if command is None else {"pydantic"})
