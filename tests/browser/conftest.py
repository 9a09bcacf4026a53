"""A headless browser for the pages; without one the tests fail, and say how to get it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[2]
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
Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
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


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens a file on a device; the test fails when the page logged an error or asked the network
    for anything.
    """
    complaints: list[str] = []
    contexts = []

    def open_(path: Path, device: dict[str, object] = DESKTOP, **more: object) -> Page:
        context = browser.new_context(**device, **more)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:", "blob:"))
                else complaints.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn=yes]")
        page.wait_for_selector("#usage .main-svg")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
