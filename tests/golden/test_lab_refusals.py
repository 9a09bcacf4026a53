"""What commands of the laboratory refuse, in lab_refusals.txt: a command line, then its exit code
and what it says behind `>`. `make golden` rewrites the answers.
"""

import shutil
from itertools import islice
from pathlib import Path

import pytest

from tests.golden.printed import compare_refusals
from tests.lab.test_cli_trace import ORDERS, RISING, A, passes, recording, two_clusters
from tests.lab.test_columnar_fold import an_hour, recorded
from tests.telemetry_lines import dumps, sweep

_FILE = Path(__file__).with_name("lab_refusals.txt")
DATA = Path(__file__).parents[1] / "data" / "vectors"
SOUND: dict[str, object] = {"suite": "shedding", "strategy": "ThresholdShedder", "id": "x"}
SOUND |= {"conf": {}, "rounds": [], "expect": {"rounds": []}}
#: Files of decision vectors whose second line is wrong.
VECTORS: dict[str, object] = {
    "no-fields": {"suite": "shedding"},
    "no-suite": SOUND | {"suite": "juggling"},
    "no-strategy": SOUND | {"strategy": "BestShedder"},
    "no-answer": SOUND | {"rounds": [{}]},
    "no-weight": SOUND | {"conf": {"loadBalancerCPUResourceWeight": "much"}},
    "no-usage": SOUND | {"rounds": [{"brokers": {"b": {"cpu": {"usage": "much"}}}}]},
    "no-json": "{",
}


def vectors(line: object) -> list[bytes]:
    return [dumps(SOUND), line.encode() if isinstance(line, str) else dumps(line)]


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
        "policies": [dumps({"p": {"namespaces": ["("], "unload_scope": "all"}, "q": 1})],
        **{name: vectors(line) for name, line in VECTORS.items()},
    }.items():
        recording(tmp_path, content, f"{name}.jsonl")
    (tmp_path / "mine.csv").write_text("mine")
    whole = (DATA / "shedding/ThresholdShedder.jsonl.gz").read_bytes()
    (tmp_path / "torn.jsonl.gz").write_bytes(whole[:200])
    (tmp_path / "plain.jsonl.gz").write_bytes(b"{}")
    shutil.copy(DATA / "placement/AvgShedder.jsonl.gz", tmp_path)
    compare_refusals(_FILE, tmp_path, rewrite)
