"""A headless Chromium for tests; without one they fail, and the failure says how to get it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Width, height, and what else makes the device.
DESKTOP: dict[str, object] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, object] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Closed after the last test."""
    from playwright.sync_api import sync_playwright

    found = subprocess.run(
        [ROOT / "scripts/browser.sh", "find"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=found.stdout.strip(), args=list(ARGUMENTS)
        )
        yield chromium
        chromium.close()
