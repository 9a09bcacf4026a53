"""The traceback of a rule that raises reaches the log once per cause, and no record."""

from __future__ import annotations

import pytest

from strategies.fold.engine import Engine
from streaming.worker_process import log_once
from tests.unit.test_raised import BROKERS, raising
from tests.world.little_cluster import LittleCluster


def test_a_rule_that_raises_in_each_round_has_one_cause_and_no_traceback_in_records() -> None:
    causes: dict[str, Exception] = {}
    made = LittleCluster({name: dict(some) for name, some in BROKERS.items()}, raising("c", 5))
    made.engine = Engine(raising("c", 5), causes.__setitem__)
    rounds = [made.passes() for _ in range(4)]
    ((cause, error),) = causes.items()
    assert cause.startswith("ZeroDivisionError in tests.raising_strategy, line 36")
    assert isinstance(error, ZeroDivisionError)
    assert all("Traceback" not in skip.text for one in rounds for skip in one.skips)


def test_a_cause_is_written_once_and_the_memory_of_causes_is_bounded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers = (*range(1_001), 1_000, 0)
    for number in numbers:
        log_once(f"cause {number}", ValueError(number))
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("a rule raised: cause 1000") == 1
    assert lines.count("a rule raised: cause 0") == 2
    assert lines.count("ValueError: 1000") == 1
