"""Programs whose Pulsar topics nobody serves end with 1 at every start: no thread of the client
aborts them.
"""

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from tests.control_topic import TOPICS
from tests.pulsar_fake.model import Cluster
from tests.pulsar_fake.server import FakePulsar
from tests.topic_uris import topic_settings
from tools.processes.set_words import set_words

pytestmark = [pytest.mark.servers, pytest.mark.faults]
PROJECT = Path(__file__).parents[2]
COMMANDS = ("run", "collect", "execute")

#: A thread of the client is inside the supplier of the token when the process ends, and returns
#: from it during finalization.
LATE_SUPPLIER = """
import contextlib, os, socket, sys, threading, time
import pulsar
from pulsar_rebalancer.cli.errors import leave

server, asked = socket.create_server(("127.0.0.1", 0)), threading.Event()

def supply():
    asked.set()
    time.sleep(2)
    return "token"

quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
url = f"pulsar://127.0.0.1:{server.getsockname()[1]}"
token = pulsar.AuthenticationToken(supply)
client = pulsar.Client(url, authentication=token, operation_timeout_seconds=1, logger=quiet)

def connect():
    with contextlib.suppress(Exception):
        client.get_topic_partitions("persistent://t/ns/topic")

class Finalization:
    def __del__(self, sleep=time.sleep):
        sleep(5)

threading.Thread(target=connect, daemon=True).start()
asked.wait()
sys.lasts_longer = Finalization()
print("printed, not flushed")
"""


def ended(*words: str) -> subprocess.CompletedProcess[str]:
    """A Python that was started with these words, after its end."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_our_end_does_not_wait_for_threads_of_the_client() -> None:
    """Without `leave`, such a thread aborts the process: with -6, up to Python 3.13."""
    late = ended("-c", LATE_SUPPLIER + "leave(1)")
    assert (late.returncode, late.stderr) == (exit_codes.ERROR, "")
    assert late.stdout == "printed, not flushed\n"


@pytest.mark.parametrize("starts", [4, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_start_against_a_dead_address_ends_with_1(
    command: str, starts: int, tmp_path: Path
) -> None:
    assert codes_of(command, tmp_path, starts) == [exit_codes.ERROR] * starts


def codes_of(command: str, folder: Path, starts: int) -> list[int]:
    """The exit codes, four at a time. A token is shown: its supplier is what threads of the client
    hold.
    """
    (folder / "token").write_text("a.b.c", "utf-8")
    with FakePulsar(Cluster(), 1) as pulsar:
        given = {
            "pulsar.cluster": "c",
            "pulsar.admin_urls": pulsar.admin_urls,
            "pulsar.token_file": folder / "token",
            "pulsar.deadline_ms": 5_000,
            **topic_settings({one: f"pulsar://127.0.0.1:1/t/ns/{one}" for one in TOPICS}),
        }
        folders = [folder / str(number) for number in range(starts)]
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda one: code_of(command, one, given), folders))


def code_of(command: str, folder: Path, given: Mapping[str, object]) -> int:
    own = {"job.checkpoint": folder / "checkpoint", "executor.state": folder / "state"}
    words = set_words({**given, **own})
    started = ended("-m", "pulsar_rebalancer.cli.main", command, *words)
    errors = [line for line in started.stderr.splitlines() if " error: " in f" {line}"]
    assert (len(errors), started.stderr.splitlines()[-1:]) == (1, errors), started.stderr
    assert "127.0.0.1:1 does not accept connections" in errors[0]
    assert "Traceback" not in started.stderr
    return started.returncode
