"""Properties of which one example takes 0.1 s of CPU or more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings

from tests.conftest import EXAMPLES

_SHARE = 5


def costly(test: Callable[..., Any]) -> Callable[..., Any]:
    """A fifth of the profile's examples, and at least those of `make check`: 100 in `make test`,
    2,000 in `make test-long`.

    500 examples of 0.3 s take two and a half minutes of one core, longer than any other test of the
    suite.
    """
    return settings(max_examples=max(EXAMPLES["quick"], settings().max_examples // _SHARE))(test)
