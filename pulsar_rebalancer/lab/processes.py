"""Runs work in several processes, which all end with this one: when the work is done, after Ctrl-C
or SIGTERM, and when it dies.
"""

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

from sinks.graceful_stop import handling
from strategies.errors import RebalancerError

T = TypeVar("T")
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})


class WorkerLost(RebalancerError):
    """A worker process was ended from outside."""


def run_each(
    calls: Sequence[Callable[[], T]], processes: int, done: Callable[[int, T], None]
) -> list[T]:
    """The results of the calls, in their order. Calls `done` with the place and result of each call
    as soon as it ends.

    Raises what a call raises, at once, and WorkerLost.
    """
    if min(processes, len(calls)) <= 1:
        return [_reported(place, call(), done) for place, call in enumerate(calls)]
    with _pool(min(processes, len(calls))) as pool:
        with signals_wait():
            places = {pool.submit(call): place for place, call in enumerate(calls)}
        answers = {
            places[future]: _reported(places[future], future.result(), done)
            for future in as_completed(places)
        }
    return [answers[place] for place in range(len(calls))]


def _reported(place: int, answer: T, done: Callable[[int, T], None]) -> T:
    done(place, answer)
    return answer


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of spawned processes: a forked one may copy locks that another thread holds."""
    pool = ProcessPoolExecutor(
        processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent
    )
    with handling(_leave, signal.SIGTERM):
        try:
            yield pool
        except BrokenProcessPool as error:
            raise WorkerLost(
                "a worker process was ended from outside, perhaps for lack of memory; try --jobs 1"
            ) from error
        finally:
            if sys.exc_info()[0] is not None:
                for worker in multiprocessing.active_children():
                    worker.kill()
            # One call: a second one would not wait for the pool's thread any more, and the end of
            # Python would disturb it. After an error, calls that have not started are cancelled.
            pool.shutdown(cancel_futures=True)


def _leave(number: int, _frame: Any) -> None:
    """SIGTERM raises SystemExit, so that this process cleans up."""
    raise SystemExit(128 + number)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Blocks SIGINT and SIGTERM in processes that start here: a terminal sends signals to all
    processes, but only this one reacts.

    It reacts after the block: an interrupt during the start of a process would leave it half
    started, with a long traceback.
    """
    resource_tracker.ensure_running()  # starting it later would unblock the signals
    heard: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        # A signal blocked here can reach another thread, for example numpy's; Python would still
        # handle it in the main thread.
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
