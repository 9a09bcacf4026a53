"""Every scenario prints what its file says; `make golden` rewrites the files."""

from pathlib import Path

import pytest

from tests.golden.scenario import join_file, play, read_scenario, split_file

SCENARIOS = sorted(Path(__file__).with_name("scenarios").glob("*.txt"))


@pytest.mark.heavy
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_prints_what_its_file_says(path: Path, rewrite: bool) -> None:
    head, expected = split_file(path)
    printed = "\n".join(play(read_scenario(head))) + "\n"
    if rewrite:
        join_file(path, head, printed)
        return
    assert printed == expected, (
        f"{path.name}: the print-out changed; `make golden` rewrites it, read the "
        "difference before you commit it"
    )
