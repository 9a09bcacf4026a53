"""A headless Chromium for tests; without one they are skipped, with how to get it as the reason."""

import os
import subprocess
from collections.abc import Iterator, Mapping
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
def browser() -> "Iterator[Browser]":
    """Closed after the last test."""
    from playwright.sync_api import sync_playwright

    path = chromium_path(os.environ)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


def chromium_path(environment: Mapping[str, str]) -> str:
    """The browser that scripts/browser.sh finds. Without one, the test is skipped; one that the
    user names must start.
    """
    found = subprocess.run(
        [ROOT / "scripts/browser.sh", "find"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode and environment.get("REBALANCER_BROWSER"):
        pytest.fail(found.stderr.strip(), pytrace=False)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return found.stdout.strip()
