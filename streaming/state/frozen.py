"""Keeps Python's search for cycles away from the state that stays from one micro-batch to the next.

The state of 1,000 clusters is millions of objects. Python searches all of them whenever enough new
ones have come together, which is once or twice in a micro-batch, and finds nothing: a fold makes no
cycles. Objects that are frozen are not searched, and are freed like others when nothing refers to
them.
"""

from __future__ import annotations

import gc

#: Micro-batches after which everything is searched once: cycles of Spark's own objects that were
#: frozen while in use are freed then.
_SEARCHED_EVERY = 128


class Freezer:
    """Freezes what a process holds after each micro-batch."""

    def __init__(self) -> None:
        self._batches = 0

    def after_batch(self) -> None:
        """Freezes all objects of this process."""
        if self._batches % _SEARCHED_EVERY == 0:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        self._batches += 1
