"""What commands of the laboratory refuse, in lab_refusals.txt: a command line, then its exit code
and what it says behind `>`. `make golden` rewrites the answers.
"""

from itertools import islice
from pathlib import Path

import pytest

from tests.golden.printed import compare_refusals
from tests.lab.test_cli_trace import ORDERS, RISING, A, passes, recording, two_clusters
from tests.lab.test_columnar_fold import an_hour, recorded
from tests.telemetry_lines import sweep

_FILE = Path(__file__).with_name("lab_refusals.txt")


@pytest.mark.heavy
def test_refused_commands_say_what_the_file_says(rewrite: bool, tmp_path: Path) -> None:
    lines, _ = recorded(tmp_path, islice(an_hour(), 5))
    for name, content in {
        "short": lines[:4],
        "empty": [],
        "nonsense": [b"nonsense"],
        "nobody": [sweep(1, A)],
        "rising": RISING,
        "brief": RISING[:3],
        "idle": passes(*[{A: {ORDERS: 0.0}}] * 4),
        "two": two_clusters(),
    }.items():
        recording(tmp_path, content, f"{name}.jsonl")
    (tmp_path / "mine.csv").write_text("mine")
    compare_refusals(_FILE, tmp_path, rewrite)
