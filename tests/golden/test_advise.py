"""The page of `rebalancer advise` on a recording of a real cluster is that of advise.txt; `make
golden` rewrites it.
"""

from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT
from tests.golden.printed import compare
from tests.unit.command_line import rebalancer

_FILE = Path(__file__).with_name("advise.txt")
_RECORDING = ROOT / "tests/data/recordings/modular-broker-joins.jsonl.gz"


@pytest.mark.heavy
def test_the_page_is_that_of_the_file(rewrite: bool) -> None:
    answer = rebalancer("advise", _RECORDING, "--expect", "shop/orders=3MB/s,partitions=64")
    assert answer.code == 0, answer.err
    compare(_FILE, [answer.out], rewrite)
