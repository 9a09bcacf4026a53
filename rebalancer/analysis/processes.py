"""Work in several processes, all of which end with this one: when it is done, after Ctrl-C or SIGTERM, and when it dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from typing import Any, TypeVar

from sinks.stopping import handling
from strategies.errors import RebalancerError

T = TypeVar("T")
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})


class WorkerLost(RebalancerError):
    """A process of ours was ended from outside."""


def run_each(calls: Sequence[Callable[[], T]], processes: int, done: Callable[[int, T], None]) -> list[T]:
    """What the calls give, in their order. `done` is told the place and the answer of each as soon as it is there.

    Raises what a call raises, at once, and WorkerLost.
    """
    if min(processes, len(calls)) <= 1:
        return [_told(place, call(), done) for place, call in enumerate(calls)]
    with _pool(min(processes, len(calls))) as pool:
        with signals_wait():
            places = {pool.submit(call): place for place, call in enumerate(calls)}
        answers = {places[future]: _told(places[future], future.result(), done) for future in as_completed(places)}
    return [answers[place] for place in range(len(calls))]


def _told(place: int, answer: T, done: Callable[[int, T], None]) -> T:
    done(place, answer)
    return answer


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Spawned, not forked: what starts from nothing shares no thread in the middle of something."""
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    with _terminated_in_order():
        try:
            yield pool
        except BrokenProcessPool as error:
            raise WorkerLost("a process that was at work was ended from outside, perhaps for want of memory; try --jobs 1") from error
        finally:
            # Nobody waits for work that is not wanted any more.
            pool.shutdown(wait=False, cancel_futures=True)
            if sys.exc_info()[0] is not None:
                for worker in multiprocessing.active_children():
                    worker.kill()
            pool.shutdown()


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM, too, lets this process clear up behind itself."""

    def leave(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    with handling(leave, signal.SIGTERM):
        yield


@contextmanager
def signals_wait() -> Iterator[None]:
    """Processes that start meanwhile never hear these signals: whoever is at a terminal sends them to all, but only this one answers.

    This one answers afterwards: whoever is interrupted while it starts another leaves that half started, which is told at length.
    """
    resource_tracker.ensure_running()  # it lets the signals through again when it starts
    heard: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        # What is blocked here can reach any other thread, numpy's for example; the answer would still be Python's, in the main thread.
        with handling(lambda number, _frame: heard.append(number), *_ENDING):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for number in heard:
        signal.raise_signal(number)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(parent: int) -> None:
    connection.wait([parent])
    os._exit(1)
