"""Producers and consumers in a process of their own: python -m tools.traffic.traffic PLAN LOG,
until SIGTERM; SIGUSR1 changes the rates to the plan's later ones.

Every topic has a producer that numbers its messages, and a consumer. The log says of each message
when it was sent, when the broker acknowledged it, and when the consumer had it; what the library
says of its connections is in a log beside it. `tools.traffic.traffic_log` reads both. READY is said
when brokers have had time to measure the traffic. After SIGTERM no more is sent, and the process
ends when every acknowledged message has been received, or nothing has come for some seconds.
"""

import heapq
import itertools
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sinks.graceful_stop import stopping
from tools.traffic.connections import connections_log

if TYPE_CHECKING:
    import pulsar

READY = "ready"
#: So much traffic, in seconds of it, makes it ready: brokers have measured it then.
_MEASURED_S = 12.0
#: How long after the last message a consumer that still misses some gives up.
_SILENCE_S = 20.0


class Traffic:
    """The clients of some topics. Callbacks come from threads of the client library."""

    def __init__(
        self, client: "pulsar.Client", rates: dict[str, float], message_bytes: int, log: TextIO
    ) -> None:
        self._rates, self._log, self._lock = rates, log, threading.Lock()
        self._padding = b"." * (message_bytes - 8)
        self._missing, self._heard_at = set[tuple[int, int]](), time.monotonic()
        self._early = set[tuple[int, int]]()
        self.pending, self._acknowledged, self._enough = (
            0,
            0,
            int(_MEASURED_S * sum(rates.values())),
        )
        with ThreadPoolExecutor(8) as pool:
            topics = list(enumerate(rates))
            self._consumers = list(pool.map(lambda one: self._subscribe(client, *one), topics))
            self._producers = list(
                pool.map(
                    lambda one: client.create_producer(one[1], block_if_queue_full=True), topics
                )
            )

    def send_until(
        self,
        stop: threading.Event,
        changed: threading.Event,
        later: Sequence[float],
        scattered: float,
    ) -> None:
        """Every topic at its own rate, and at its later one when that has `changed`. Without
        bursts: what was late because the machine was busy is not made up for. `scattered`: part of
        the time between two messages by which it varies.
        """
        gaps = [1.0 / rate for rate in self._rates.values()]
        chances = random.Random(len(gaps))
        numbers = [itertools.count() for _ in gaps]
        due = [(time.monotonic() + gap, topic) for topic, gap in enumerate(gaps)]
        heapq.heapify(due)
        while not stop.is_set():
            at, topic = due[0]
            if (early := at - time.monotonic()) > 0:
                stop.wait(early)
                continue
            if changed.is_set():
                gaps = [1.0 / rate for rate in later]
            gap = gaps[topic] * chances.uniform(1.0 - scattered, 1.0 + scattered)
            heapq.heapreplace(due, (max(at, time.monotonic() - 1) + gap, topic))
            self._send(topic, next(numbers[topic]))

    def wait_for_the_rest(self) -> None:
        """Until nothing is on its way any more."""
        while (self.pending or self._missing) and time.monotonic() < self._heard_at + _SILENCE_S:
            time.sleep(0.05)

    def _send(self, topic: int, number: int) -> None:
        with self._lock:
            self.pending += 1
        done = partial(self._sent, topic, number, time.time_ns())
        self._producers[topic].send_async(number.to_bytes(8, "big") + self._padding, done)

    def _sent(self, topic: int, number: int, sent_ns: int, result: Any, _: Any) -> None:
        import pulsar

        acknowledged = result == pulsar.Result.Ok
        with self._lock:
            self.pending -= 1
            self._heard_at = time.monotonic()
            if acknowledged and (topic, number) not in self._early:
                self._missing.add((topic, number))
            self._early.discard((topic, number))
            self._acknowledged += 1
            if self._acknowledged == self._enough:
                print(READY, flush=True)
            print(
                "sent" if acknowledged else "failed",
                topic,
                number,
                sent_ns,
                time.time_ns(),
                file=self._log,
            )

    def _subscribe(self, client: "pulsar.Client", topic: int, name: str) -> "pulsar.Consumer":
        import pulsar

        listener = partial(self._received, topic)
        earliest = pulsar.InitialPosition.Earliest
        return client.subscribe(
            name, "counted", message_listener=listener, initial_position=earliest
        )

    def _received(self, topic: int, consumer: "pulsar.Consumer", message: "pulsar.Message") -> None:
        import pulsar

        number = int.from_bytes(message.data()[:8], "big")
        with self._lock:
            self._heard_at = time.monotonic()
            if (topic, number) in self._missing:
                self._missing.discard((topic, number))
            else:
                self._early.add((topic, number))  # before the acknowledgement, or once more
            print("received", topic, number, time.time_ns(), file=self._log)
        with suppress(
            pulsar.PulsarException
        ):  # connections end when a bundle moves; the message comes again
            consumer.acknowledge(message)


def main() -> int:
    import pulsar

    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    changed = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: changed.set())
    login = pulsar.AuthenticationToken(plan["token"]) if plan["token"] else None
    log = Path(sys.argv[2])
    said = connections_log(log)
    said.unlink(missing_ok=True)  # the library would add to it
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(said))
    client = pulsar.Client(plan["url"], authentication=login, logger=logger)
    # The log is closed last: callbacks write to it until the client is closed.
    with stopping() as stop, log.open("w", encoding="utf-8") as out, closing(client):
        traffic = Traffic(client, plan["rates"], plan["message_bytes"], out)
        traffic.send_until(stop, changed, list(plan["later"].values()), plan["scattered"])
        traffic.wait_for_the_rest()
    return 0


if __name__ == "__main__":
    sys.exit(main())
