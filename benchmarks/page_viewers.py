"""What viewers of the live page cost the job: micro-batches with and without them, side by side.

One job decides on a pass of reports every few seconds. Blocks of passes alternate: in every other
one, `rebalancer serve` follows the topics of the job and viewers ask for all documents after each
change, all on this machine.
"""

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx

from benchmarks.fleet import Fleet
from benchmarks.options import number, options
from benchmarks.plain import SETTINGS
from sinks.graceful_stop import Stop
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import Connections, file_topic_uri
from streaming.job import run_job
from streaming.progress import BatchProgress
from streaming.settings import JobSettings
from streaming.spark_session import start_session, stop_session
from tests.live_topics import settings_of
from tests.topic_uris import topics_of

ROOT = Path(__file__).parents[1]
_TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes", "approvals")
_DOCUMENTS = ("clusters", "cluster", "plans", "brokers", "usage", "bundles", "rounds")
_WARM_UP = 8
#: Time (s) in which page and viewers start, before the passes of a block.
_SETTLES_S = 5
_CROWD = (
    "import sys; from benchmarks.page_viewers import crowd; crowd(sys.argv[1], int(sys.argv[2]))"
)


@dataclass
class Blocks:
    """The job's batches, each under the name of the block in which it began."""

    block: str = "warm-up"
    records: int = 0
    batches: dict[str, list[int]] = field(default_factory=dict)

    def add(self, one: BatchProgress) -> None:
        """Adds a batch with reports."""
        self.records += one.records
        if one.records > 1:
            self.batches.setdefault(self.block, []).append(one.took_ms)


def main(words: Sequence[str] | None = None) -> None:
    """Prints the medians and their ratio."""
    parser = options("benchmarks.page_viewers", __doc__ or "")
    number(parser, "--brokers", 200, "brokers, with 100 bundles each")
    number(parser, "--viewers", 20, "viewers")
    number(parser, "--blocks", 10, "blocks of passes, every other one with viewers")
    number(parser, "--passes", 6, "passes of a block")
    number(parser, "--every", 3, "seconds between two passes")
    given = parser.parse_args(words)
    found = Blocks()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        feed = threading.Thread(target=_fed, args=(folder, given, found, stop := Stop()))
        with FileTopicWriter(folder / "telemetry"):
            feed.start()
            _job(folder, found, stop)
        feed.join()
    alone = [took for block, all_ in found.batches.items() if "alone" in block for took in all_]
    viewed = [took for block, all_ in found.batches.items() if "viewers" in block for took in all_]
    figures = {
        "alone_ms": median(alone),
        "viewers_ms": median(viewed),
        "ratio": median(viewed) / median(alone),
        "blocks": {block: median(all_) for block, all_ in found.batches.items()},
        "batches": [len(alone), len(viewed)],
    }
    print(json.dumps(figures, indent=None if given.json else 2))


def _job(folder: Path, found: Blocks, stop: Stop) -> None:
    uris = {kind: file_topic_uri(folder / kind) for kind in _TOPICS}
    job = JobSettings(
        checkpoint=str(folder / "checkpoint"), connections=Connections(topics=topics_of(**uris))
    )
    spark = start_session(job, folder / "spark.log")
    try:
        run_job(job, SETTINGS["steady"], on_progress=found.add, stop=stop, session=spark)
    finally:
        stop_session(spark)


def _fed(folder: Path, given: object, found: Blocks, stop: Stop) -> None:
    """Publishes passes, and switches viewers on and off between blocks."""
    words = vars(given)
    fleet = Fleet(words["brokers"])
    with FileTopicWriter(folder / "telemetry") as topic:
        for count in range(_WARM_UP):
            topic.append([*fleet.reports(count), fleet.sweep(count)])
        while found.records < _WARM_UP * (fleet.brokers + 1):
            time.sleep(0.5)
        count = _WARM_UP
        for block in range(words["blocks"]):
            watched = _viewers(folder, words["viewers"]) if block % 2 else nullcontext()
            with watched:
                time.sleep(_SETTLES_S)
                found.block = f"{block} {'viewers' if block % 2 else 'alone'}"
                for _ in range(words["passes"]):
                    topic.append([*fleet.reports(count), fleet.sweep(count)])
                    count += 1
                    time.sleep(words["every"])
    stop.set()


@contextmanager
def _viewers(folder: Path, viewers: int) -> Iterator[None]:
    given = ["serve.listen=127.0.0.1:0", *settings_of(folder)]
    words = [word for setting in given for word in ("--set", setting)]
    log = folder / "page.log"
    with log.open("wb") as out:
        page = subprocess.Popen(
            [sys.executable, "-m", "pulsar_rebalancer", "serve", *words], cwd=ROOT, stderr=out
        )
    try:
        while not (address := re.search(r" page: (\S+)", log.read_text())):
            time.sleep(0.2)
        crowd = subprocess.Popen(
            [sys.executable, "-c", _CROWD, address[1], str(viewers)],
            cwd=ROOT,
        )
        try:
            yield
        finally:
            crowd.kill()
            crowd.wait()
    finally:
        page.terminate()
        page.wait(30)


def follow(url: str) -> None:
    """One viewer: asks for all documents after each message, as a browser does: those that did not
    change are not sent again.
    """
    tags: dict[str, str] = {}
    with (
        httpx.Client(base_url=f"{url}api/v1/", timeout=None) as client,
        client.stream("GET", "events") as stream,
    ):
        for line in stream.iter_lines():
            clusters = json.loads(line[6:])["clusters"] if line.startswith("data: ") else {}
            for name in _DOCUMENTS if clusters else ():
                answer = client.get(
                    name,
                    params={"cluster": next(iter(clusters))},
                    headers={"If-None-Match": tags.get(name, "")},
                )
                tags[name] = answer.headers.get("etag", "")
            if clusters:
                time.sleep(3)


def crowd(url: str, count: int) -> None:
    """This number of viewers, until the process ends."""
    for _ in range(count):
        threading.Thread(target=follow, args=(url,)).start()


if __name__ == "__main__":
    main()
