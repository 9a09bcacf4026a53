"""Work beside the main work: again and again while the context lasts, and not after it."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from sinks.processes import repeated


def test_work_is_repeated_until_the_end_which_it_can_see() -> None:
    seen, third = list[bool](), threading.Event()

    def work(ended: threading.Event) -> None:
        seen.append(ended.is_set())
        if len(seen) == 3:
            third.set()
            ended.wait(30)
            seen.append(ended.is_set())

    with repeated(work, 0.001, "work", end_s=30):
        assert third.wait(30)
    assert seen == [False, False, False, True]


def test_what_the_work_uses_is_closed_by_its_thread_when_it_has_ended() -> None:
    used, closed_by = ExitStack(), list[str]()
    used.callback(lambda: closed_by.append(threading.current_thread().name))
    with repeated(lambda _: None, 0.001, "work", used=used, end_s=30):
        assert closed_by == []
    assert closed_by == ["work"]
