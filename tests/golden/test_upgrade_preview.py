"""The text of `rebalancer upgrade-preview` on a modelled hour is that of upgrade_preview.txt; `make
golden` rewrites it.
"""

from pathlib import Path

import pytest

from tests.golden.printed import compare
from tests.lab.test_columnar_fold import an_hour
from tests.lab.test_upgrade_preview import stored
from tests.unit.command_line import rebalancer

_FILE = Path(__file__).with_name("upgrade_preview.txt")


@pytest.mark.heavy
def test_the_text_is_that_of_the_file(tmp_path: Path, rewrite: bool) -> None:
    answer = rebalancer("upgrade-preview", stored(tmp_path / "hour.jsonl", an_hour()))
    assert answer.code == 0, answer.err
    compare(_FILE, [answer.out], rewrite)
