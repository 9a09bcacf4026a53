"""The executor killed with −9 between applying and committing: no command is applied twice, none is
lost, nothing secret is shown.
"""

import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.lanes import variant
from tools.kills.kill_execute import plan, run

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="reads command lines in /proc"),
]


@pytest.mark.essential
@pytest.mark.parametrize(("manager", "seed"), [("modular", 1), variant("extensible", 2)])
def test_three_kills_apply_nothing_twice_and_lose_nothing(
    tmp_path: Path, manager: Literal["modular", "extensible"], seed: int
) -> None:
    result = run(tmp_path, plan(3, seed), manager)

    assert result.faults == []
    assert result.statuses == {"applied": 9}
