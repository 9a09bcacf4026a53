"""Opens pages in a headless browser; a test fails when a page logged an error or asked another
place for anything.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import DESKTOP
from tests.live_server import RunningPage

Device = dict[str, object]
Open = Callable[..., Page]
#: What a browser logs of requests before the sign-in, and while the server restarts.
_EXPECTED = re.compile(r"401|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE")


@pytest.fixture
def open_url(browser: Browser) -> Iterator[Open]:
    """Opens an address on a device. `origins`: beginnings of the addresses that it may ask for."""
    complaints: list[str] = []
    with ExitStack() as stack:

        def open_(url: str, origins: tuple[str, ...], device: Device, **more: object) -> Page:
            context = browser.new_context(**device, **more)  # type: ignore[arg-type]
            stack.callback(context.close)

            def log(kind: str, text: str) -> None:
                if kind in ("error", "warning") and not _EXPECTED.search(text):
                    complaints.append(text)

            def ask(asked: str) -> None:
                if not asked.startswith(origins):
                    complaints.append(asked)

            page = context.new_page()
            page.set_default_timeout(120_000)
            page.on("console", lambda message: log(message.type, message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: ask(request.url))
            page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
            page.goto(url)
            return page

        yield open_
    assert complaints == []


@pytest.fixture
def open_page(open_url: Open) -> Open:
    """Opens the file of a report, when it is drawn."""

    def open_(path: Path, device: Device = DESKTOP, **more: object) -> Page:
        page = open_url(path.as_uri(), ("file:", "data:", "blob:"), device, **more)
        page.wait_for_selector("html[data-drawn=yes]")
        page.wait_for_selector("#usage .main-svg, #chart-0 .main-svg")
        return page

    return open_


@pytest.fixture
def open_live(open_url: Open) -> Open:
    """Opens a running live page."""
    expect.set_options(timeout=60_000)

    def open_(running: RunningPage, device: Device = DESKTOP, **more: object) -> Page:
        return open_url(running.url, (running.url, "data:"), device, **more)

    return open_
