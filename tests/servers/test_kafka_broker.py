"""The test broker itself: what it keeps over a kill, and that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.servers.jvm import dying_with_us
from tools.servers.kafka_broker import KAFKA, KafkaBroker
from tools.waiting import eventually

pytestmark = pytest.mark.servers
ROOT = Path(__file__).parents[2]
_STARTER = """
import os, pathlib, signal, sys
from tools.servers.kafka_broker import kafka_broker
with kafka_broker(pathlib.Path(sys.argv[1])) as broker:
    print(broker.server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_broker_comes_back_with_its_ports_and_records(own_kafka: KafkaBroker) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    own_kafka.topic("kept")
    producer = KafkaProducer(bootstrap_servers=own_kafka.address())
    producer.send("kept", b"record").get(120)
    producer.close()
    own_kafka.server.kill()
    own_kafka.server.start()
    consumer = KafkaConsumer(
        "kept", bootstrap_servers=own_kafka.address(), auto_offset_reset="earliest"
    )
    values: list[bytes] = []

    def came() -> bool:
        values.extend(record.value for records in consumer.poll(200).values() for record in records)
        return bool(values)

    eventually(came, 120, "the record is gone")
    consumer.close()
    assert values == [b"record"]


@pytest.mark.skipif(not dying_with_us(), reason="only Linux has a parent-death signal (setpriv)")
def test_a_broker_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    assert KAFKA.jars  # skipped without them
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _STARTER, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    eventually(lambda: not is_alive(int(done.stdout)), 60, "the broker outlived its starter")


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return False
