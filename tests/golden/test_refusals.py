"""What commands refuse before they do anything, in refusals.txt. `make golden` rewrites it."""

from pathlib import Path

import pytest

from tests.golden.printed import compare_refusals


@pytest.mark.heavy
def test_refused_commands_say_what_the_file_says(rewrite: bool, tmp_path: Path) -> None:
    compare_refusals(Path(__file__).with_name("refusals.txt"), tmp_path, rewrite)
    assert list(tmp_path.iterdir()) == []
