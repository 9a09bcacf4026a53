"""The traceback of a rule that raises reaches the log once per cause, and no record."""

from __future__ import annotations

from strategies.fold.engine import Engine
from streaming.raised_log import RaisedLog
from tests.unit.little_cluster import LittleCluster
from tests.unit.test_raised import BROKERS, raising


def test_a_traceback_is_written_once_per_cause() -> None:
    lines: list[str] = []
    made = LittleCluster({name: dict(some) for name, some in BROKERS.items()}, raising("c", 5))
    made.engine = Engine(raising("c", 5), RaisedLog(lines.append))
    rounds = [made.passes() for _ in range(4)]
    (line,) = lines
    assert line.startswith("a rule raised: ZeroDivisionError in tests.raising_strategy, line 36")
    assert "Traceback (most recent call last):" in line
    assert 'raising_strategy.py", line 36, in shed' in line
    assert all("Traceback" not in skip.text for one in rounds for skip in one.skips)


def test_another_cause_is_written_too_and_the_memory_of_causes_is_bounded() -> None:
    lines: list[str] = []
    log = RaisedLog(lines.append)
    for number in range(1_001):
        log(f"cause {number}", ValueError(number))
    assert len(lines) == 1_001
    log("cause 1000", ValueError())
    assert len(lines) == 1_001
    log("cause 0", ValueError())
    assert len(lines) == 1_002
