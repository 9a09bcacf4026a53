"""Opens pages in a headless browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.chromium import DESKTOP

Open = Callable[..., Page]


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
