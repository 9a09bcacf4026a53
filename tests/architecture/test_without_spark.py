"""Everything but the streaming job works where Spark is not installed: that is what the executor's image holds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.lazy import COMMANDS
from tests.architecture.command_line import ROOT, run

#: Runs `rebalancer` in an interpreter in which nothing of the [spark] extra can be found.
REBALANCER_WITHOUT_SPARK = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas", "pyarrow", "google"):
            raise ModuleNotFoundError(f"No module named {name!r} (hidden by the test)", name=name)

sys.meta_path.insert(0, Missing())
from cli.main import main
sys.argv[0] = "rebalancer"
main()
"""


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_explains_itself(command: str) -> None:
    answer = run(sys.executable, "-c", REBALANCER_WITHOUT_SPARK, command, "--help")
    assert answer.returncode == 0, answer.stdout


def test_a_recording_is_replayed(tmp_path: Path) -> None:
    recording = ROOT / "tests/data/recordings/modular-broker-killed.jsonl.gz"
    answer = run(sys.executable, "-c", REBALANCER_WITHOUT_SPARK, "replay", str(recording), "--out", str(tmp_path))
    assert answer.returncode == 0, answer.stdout
    assert (tmp_path / "rounds.jsonl").stat().st_size > 0


def test_spark_is_hidden_by_the_script() -> None:
    script = REBALANCER_WITHOUT_SPARK.replace("from cli.main import main", "import pyspark")
    assert "hidden by the test" in run(sys.executable, "-c", script, folder=ROOT).stdout
