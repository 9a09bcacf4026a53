"""Everything but the streaming job works where Spark is not installed: that is what the executor's
image holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pulsar_rebalancer.cli.lazy import COMMANDS
from tests.architecture.command_line import ROOT, run

#: Hides everything of the [spark] extra from an interpreter.
WITHOUT_SPARK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "pyarrow", "google"):
            raise ModuleNotFoundError(f"No module named {name!r} (hidden by the test)", name=name)

sys.meta_path.insert(0, Missing())
"""
REBALANCER = """
from pulsar_rebalancer.cli.main import main
sys.argv[0] = "rebalancer"
main()
"""
#: Prints which of the commands it is given do not explain themselves. One process for all: each
#: would load the same for half a second.
EXPLAIN = """
from tests.unit.command_line import rebalancer
print("mute:", *(name for name in sys.argv[1:] if rebalancer(name, "--help").code))
"""


@pytest.mark.heavy
def test_every_command_explains_itself() -> None:
    answer = run(sys.executable, "-c", WITHOUT_SPARK + EXPLAIN, *COMMANDS)
    assert answer.stdout == "mute:\n"


@pytest.mark.heavy
def test_a_recording_is_replayed(tmp_path: Path) -> None:
    recording = ROOT / "tests/data/recordings/modular-broker-killed.jsonl.gz"
    answer = run(
        sys.executable,
        "-c",
        WITHOUT_SPARK + REBALANCER,
        "replay",
        str(recording),
        "--out",
        str(tmp_path),
    )
    assert answer.returncode == 0, answer.stdout
    assert (tmp_path / "rounds.jsonl").stat().st_size > 0


def test_spark_is_hidden_by_the_script() -> None:
    assert (
        "hidden by the test" in run(sys.executable, "-c", WITHOUT_SPARK + "import pyspark").stdout
    )
