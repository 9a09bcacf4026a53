"""Checks that a report can be written, before the work that it shows."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from strategies.errors import SettingsError

NO_PLOTLY = "the HTML report needs plotly: pip install 'pulsar-rebalancer[report]', or omit --html"


def can_write() -> bool:
    """Whether the plotting library is installed."""
    return find_spec("plotly") is not None


def check_target(html: Path | None) -> None:
    """Raises SettingsError if the page cannot be written; None: no page is requested."""
    if html is None:
        return
    if not can_write():
        raise SettingsError([NO_PLOTLY])
    if html.is_dir():
        raise SettingsError(
            [f"--html: {html} is a folder; name a file, for example {html / 'report.html'}"]
        )
    existing = next(above for above in html.absolute().parents if above.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise SettingsError(
            [f"--html: {html} cannot be written, {existing} is not writable; name a file elsewhere"]
        )
