"""Files that a command writes: the check before the work that they show, and the writing."""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from sinks.durable_files import naming
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


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Writes a file; the previous one is replaced as a whole. Raises OSError, which names the
    file.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with naming(path), part.open("wb") as file:
            file.writelines(parts)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
