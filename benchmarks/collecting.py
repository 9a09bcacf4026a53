"""How long one pass over many brokers takes: python -m benchmarks.collecting --brokers 1000.

The brokers are fakes on real sockets in a process of their own, which answer after a realistic
while.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sinks.collector.collector import Collector, Source
from sinks.collector.open_cluster import opened_poll
from sinks.collector.settings import CollectorSettings
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import LeaderPoll
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.open_topics import open_publisher
from sinks.topics.topic_settings import file_topic_uri
from tests.control_topic import storing
from tests.topic_uris import topic_of

_ROOT = Path(__file__).parents[1]


@contextmanager
def fleet(brokers: int, bundles: int, shortest_ms: int, longest_ms: int) -> Iterator[str]:
    """Admin URLs of fake brokers that run as long as the context lasts."""
    words = [
        sys.executable,
        "-m",
        "benchmarks.served_fleet",
        *map(str, (brokers, bundles, shortest_ms, longest_ms)),
    ]
    with subprocess.Popen(
        words, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def main() -> None:
    """Prints the seconds of each pass."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.collecting", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--bundles", type=int, default=100, help="per broker (100)")
    parser.add_argument(
        "--latency-ms",
        type=int,
        nargs=2,
        default=(5, 50),
        help="shortest and longest answer (5 50)",
    )
    parser.add_argument("--passes", type=int, default=5)
    given = parser.parse_args()
    with (
        fleet(given.brokers, given.bundles, *given.latency_ms) as urls,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings, topic = PulsarSettings("c", urls), Path(folder) / "telemetry"
        passes = CollectorSettings()
        with (
            closing(PulsarAdmin(settings, keep_open=False)) as admin,
            closing(open_publisher(topic_of(file_topic_uri(topic)))) as publisher,
            opened_poll("modular", settings, passes, (admin, admin), wall_clock_ms) as poll,
        ):
            leader = LeaderPoll(admin, wall_clock_ms)
            source = Source("c", (), "modular", passes, admin, poll, leader)
            collector = Collector(source, storing(publisher))
            seconds = []
            for _ in range(given.passes):
                began = time.perf_counter()
                told = collector.step()
                seconds.append(time.perf_counter() - began)
                assert told.done is not None
                print(
                    f"pass {told.done.number}: {len(told.done.reports)} of {given.brokers} "
                    f"brokers in {seconds[-1]:.2f} s"
                )
        size = sum(segment.stat().st_size for segment in topic.glob("segment-*"))
    print(
        f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s, "
        f"{size / 1e6 / given.passes:.0f} MB per pass"
    )


if __name__ == "__main__":
    main()
