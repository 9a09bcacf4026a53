"""`rebalancer --help` answers at once, because it loads neither Spark nor numpy nor a client
library.
"""

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
}

#: Runs the entry point with --help in a fresh interpreter and prints what was loaded afterwards.
WHAT_HELP_LOADS = """
import sys
from pulsar_rebalancer.cli.main import main
sys.argv = ["rebalancer", "--help"]
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
print("loaded:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_help_loads_nothing_heavy() -> None:
    help_text, _, loaded = python(WHAT_HELP_LOADS).partition("loaded:")
    assert "run" in help_text
    assert "pulsar_rebalancer" in loaded.split()
    assert HEAVY & set(loaded.split()) == set()
