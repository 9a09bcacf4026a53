"""Kept state is not searched for cycles, and no cycle stays for long."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from streaming.worker_process import Freezer


class Knot:
    """Refers to itself, so that only a search frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thawed_afterwards() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.heavy
def test_what_is_kept_is_not_searched() -> None:
    kept = [Knot()]
    Freezer().after_batch()
    assert gc.get_freeze_count() > 0
    assert not any(one is kept for one in gc.get_objects())


@pytest.mark.heavy
def test_a_cycle_is_freed_after_some_micro_batches() -> None:
    freezer, knot = Freezer(), Knot()
    alive = weakref.ref(knot)
    freezer.after_batch()
    del knot
    gc.collect()
    assert alive() is not None
    for _ in range(128):
        freezer.after_batch()
    assert alive() is None
