"""How many examples a property gets, whose warnings are not ours, and signals as in a terminal, also in the background of a script."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

#: Profile → examples of every property: `make check`, `make test`, `make test-long`.
EXAMPLES = {"quick": 25, "thorough": 500, "long": 10_000}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "properties: a property that hypothesis looks for a counterexample of; make test-long looks longest")
    # Of kafka-python, whenever it reads one of its own files.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


for name, examples in EXAMPLES.items():
    # Only the long search looks elsewhere every time: nobody's other run fails for what he did not change.
    searching = name == "long"
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    settings.register_profile(
        name, max_examples=examples, deadline=None, derandomize=not searching, print_blob=True, suppress_health_check=quiet
    )
settings.load_profile("thorough")
