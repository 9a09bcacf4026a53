"""Opens the live page in the browser of the tests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect

from tests.chromium import DESKTOP
from tests.live_server import RunningPage

OpenLive = Callable[..., Page]
#: What a browser logs of requests before the sign-in, and while the server restarts.
_EXPECTED = re.compile(r"401|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE")


@contextmanager
def opener(browser: Browser) -> Iterator[OpenLive]:
    """Opens a running page on a device; fails afterwards if a page logged an error or asked
    another server for anything.
    """
    expect.set_options(timeout=60_000)
    complaints: list[str] = []
    contexts = []

    def open_(running: RunningPage, device: dict[str, object] = DESKTOP, **more: object) -> Page:
        context = browser.new_context(**device, **more)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text)
                if message.type in ("error", "warning") and not _EXPECTED.search(message.text)
                else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((running.url, "data:"))
                else complaints.append(request.url)
            ),
        )
        page.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
        page.goto(running.url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []
