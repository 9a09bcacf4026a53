"""Properties of which one example takes 0.1 s of CPU or more."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings

from tests.conftest import EXAMPLES

_SHARE = 10


def costly(test: Callable[..., Any]) -> Callable[..., Any]:
    """A tenth of the profile's examples, and at least those of `make check`: 50 in `make test`,
    1,000 in `make test-long`.

    500 examples of 0.3 s take two and a half minutes of one core, longer than any other test of the
    suite.
    """
    return settings(max_examples=max(EXAMPLES["quick"], settings().max_examples // _SHARE))(test)
