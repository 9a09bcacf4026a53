"""The live page in a browser: first paint, longest task of an update, and what viewers cost the
server, for clusters of several sizes.

    python -m benchmarks.live_page [--sizes 50x500 5000x500] [--viewers 20] [--json]

The figures are of this machine; the ratios to the first size are what a change of the page moves.
"""

import argparse
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from tests.live_server import API, RunningPage, page_of
from tests.live_topics import MadeUpCluster, publish

ROOT = Path(__file__).parents[1]
_UPDATES = 5
_OBSERVE = """
window.tasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.tasks.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
"""


@dataclass(frozen=True, slots=True)
class PageFigures:
    """ms, if not said otherwise. `longest_task`: 0 if no task took 50 ms; `update_task`: the same
    while new rounds arrive; `document_bytes`: everything that the page has received, compressed;
    `viewers_ms`: mean time of a document while all viewers ask at once.
    """

    size: str
    first_paint: float
    drawn: float
    longest_task: float
    update_task: float
    document_bytes: int
    viewers_ms: float


def main(words: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["50x500", "5000x500"])
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    with chromium() as browser:
        found = [measured(browser, size, given.viewers) for size in given.sizes]
    if given.json:
        print(json.dumps([asdict(one) for one in found]))
        return
    for name in PageFigures.__slots__[1:]:
        values = [getattr(one, name) for one in found]
        ratio = f"  ×{values[-1] / values[0]:.1f}" if values[0] else ""
        print(f"{name:<16}{''.join(f'{value:>12,.1f}' for value in values)}{ratio}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    path = subprocess.check_output([ROOT / "scripts/browser.sh", "find"], text=True).strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def measured(browser: Browser, size: str, viewers: int) -> PageFigures:
    """The figures of one size, `brokers`x`rounds`."""
    brokers, rounds = map(int, size.split("x"))
    now_ms = time.time_ns() // 1_000_000 - 60_000 * _UPDATES
    cluster = MadeUpCluster(now_ms, brokers=brokers, rounds=rounds)
    with tempfile.TemporaryDirectory() as folder:
        publish(Path(folder), cluster)
        with page_of(Path(folder)) as running:
            wait_for(running, rounds)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(_OBSERVE)
            began = time.monotonic()
            page.goto(running.url)
            page.wait_for_selector("html[data-drawn]")
            drawn = 1_000 * (time.monotonic() - began)
            page.wait_for_timeout(500)
            paint, first = first_paint(page), longest(page)
            for number in range(1, _UPDATES + 1):
                update(page, Path(folder), cluster, number)
            figures = PageFigures(
                size, paint, drawn, first, longest(page), weight(page), crowd(running, viewers)
            )
            page.close()
            return figures


def wait_for(running: RunningPage, rounds: int) -> None:
    """Waits until the page has read all rounds."""
    while running.get("cluster", cluster="production").json().get("kept") != rounds:
        time.sleep(0.2)


def first_paint(page: Page) -> float:
    """Time of the first content on the screen, ms."""
    script = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return float(page.evaluate(script))


def longest(page: Page) -> float:
    """The longest task since the last call, ms."""
    return float(page.evaluate("Math.max(0, ...window.tasks.splice(0))"))


def weight(page: Page) -> int:
    """Bytes that the page has received."""
    script = "performance.getEntriesByType('resource').reduce((s, e) => s + e.transferSize, 0)"
    return int(page.evaluate(script))


def update(page: Page, folder: Path, cluster: MadeUpCluster, number: int) -> None:
    """Publishes one more round, and waits until the page has drawn it."""
    later = replace(
        cluster, now_ms=cluster.now_ms + 60_000 * number, rounds=cluster.rounds + number
    )
    publish(folder, later, only_newest=1)
    page.locator("#newest", has_text=f"Round {later.rounds} of").wait_for()
    page.wait_for_timeout(1_000)


def crowd(running: RunningPage, viewers: int) -> float:
    """Mean time of a document while this number of viewers ask for all documents at once, ms."""
    names = ("clusters", "cluster", "plans", "brokers", "usage", "bundles", "rounds")

    def view() -> None:
        with httpx.Client(base_url=running.url + API) as client:
            for name in names:
                client.get(name, params={"cluster": "production"}).raise_for_status()

    threads = [threading.Thread(target=view) for _ in range(viewers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1_000 * (time.monotonic() - began) / (viewers * len(names))


if __name__ == "__main__":
    main()
