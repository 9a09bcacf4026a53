"""The live page of topics below a folder, on a free port of this machine, in a thread."""

import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from pulsar_rebalancer.serve.page_start_and_readiness import run_page
from pulsar_rebalancer.settings.merge_sources import load
from sinks.metrics.http_server_and_probes import Liveness, process_registry
from sinks.metrics.page_metrics import PageMetrics
from tests.live_topics import settings_of
from tools.waiting import eventually

OPERATOR, VIEWER = "operator-token-0123456789", "viewer-token-0123456789"
API = "api/v1/"


@dataclass
class RunningPage:
    """`url` ends with a slash; `lines`: everything that the process logged."""

    folder: Path
    url: str = ""
    lines: list[str] = field(default_factory=list)
    verify: ssl.SSLContext | bool = True

    def get(self, name: str, token: str | None = None, **parameters: object) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.get(
            self.url + API + name,
            params={key: str(value) for key, value in parameters.items()},
            headers=headers,
            verify=self.verify,
        )

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        found = httpx.URL(self.url)
        return found.host, found.port or 0


@contextmanager
def page_of(
    folder: Path,
    words: Sequence[str] = (),
    *,
    tokens: bool = False,
    clusters: int = 1,
    verify: ssl.SSLContext | bool = True,
) -> Iterator[RunningPage]:
    """The page as soon as it has read the topics, with `clusters` clusters. `words`: more settings;
    `tokens`: for Grace, an operator, and Ada, a viewer; `verify`: the certificates that the tests
    trust.
    """
    page, stop = RunningPage(folder, verify=verify), threading.Event()
    given = ["serve.listen=127.0.0.1:0", *settings_of(folder), *words]
    if tokens:
        file = folder / "tokens"
        file.write_text(f"# people\noperator:Grace:{OPERATOR}\nviewer:Ada:{VIEWER}\n")
        given.append(f"serve.token_file={file}")
    metrics = PageMetrics(process_registry("0.1.0"), Liveness(60, "reading the topics"))

    def run() -> None:
        run_page(
            load(flags=given),
            stop.is_set,
            metrics,
            log=page.lines.append,
            failed=page.lines.append,
            ready=lambda address, _: setattr(page, "url", address),
        )

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    token = OPERATOR if tokens else None
    try:
        eventually(lambda: bool(page.url), 60)
        eventually(lambda: not metrics.liveness.not_ready(), 60)
        eventually(lambda: len(page.get("clusters", token).json()["clusters"]) >= clusters, 60)
        yield page
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive(), "the page did not stop"
