"""The pages of `rebalancer advise` on a recording of a real cluster are those of advise.txt; `make
golden` rewrites it.
"""

from pathlib import Path

import pytest

from tests.architecture.command_line import ROOT
from tests.golden.printed import compare
from tests.unit.command_line import rebalancer

_FILE = Path(__file__).with_name("advise.txt")
_RECORDING = ROOT / "tests/data/recordings/modular-broker-joins.jsonl.gz"
_UNREACHED = ("--plan-for", "peak", "--at-most", "0.25")


@pytest.mark.heavy
def test_the_pages_are_those_of_the_file(rewrite: bool) -> None:
    launch = ("--expect", "shop/orders=3MB/s,partitions=64")
    told = [rebalancer("advise", _RECORDING, *words) for words in (launch, _UNREACHED)]
    assert [one.code for one in told] == [0, 0], told[0].err
    compare(_FILE, [one.out for one in told], rewrite)
