"""What a wrong scenario file is told, in scenario_files.txt: a scenario, then the changes of each
case with the complaints behind `>`. `make golden` rewrites the complaints.
"""

import tomllib
from pathlib import Path

from pulsar_rebalancer.lab.simulation.scenarios import read_scenarios
from strategies.errors import SettingsError
from tests.golden.printed import compare

_FILE = Path(__file__).with_name("scenario_files.txt")
#: Files with recorded load, beside the scenario.
_TRACES = {
    "words.csv": "1\nmany\n",
    "negative.csv": "1\n-2\n",
    "nothing.csv": "# nothing\n",
    "columns.csv": "# seconds,a,b\n0,1,2\n",
    "nameless.csv": "0,1,2\n",
    "short.csv": "# seconds,a,all\n0,1\n",
    "idle.csv": "# seconds,a,all\n0,1,0\n",
}


def test_wrong_files_are_told_what_the_file_says(rewrite: bool, tmp_path: Path) -> None:
    base, *cases = _FILE.read_text("utf-8").split("\n\n")
    scenario = tmp_path / "mine.toml"
    scenario.write_text(base, "utf-8")
    for name, text in _TRACES.items():
        (tmp_path / name).write_text(text, "utf-8")
    printed = [base]
    for case in cases:
        changes = [line for line in case.splitlines() if not line.startswith("> ")]
        told = _complaints(scenario, "\n".join(changes))
        assert told, f"no complaint about {changes}"
        printed.append("\n".join([*changes, *(f"> {one}" for one in told)]))
    text = "\n\n".join(printed) + "\n"
    compare(_FILE, [text], rewrite)


def _complaints(scenario: Path, changes: str) -> list[str]:
    try:
        read_scenarios.load(str(scenario), tomllib.loads(changes))
    except SettingsError as error:
        return [one.replace(f"{scenario.parent}/", "") for one in error.complaints]
    return []
