"""The examples run as they stand, on a file topic and on standard input."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.merge_sources import load
from sinks.topics.files.topic import FileTopicWriter
from sinks.wire.record_encoding import encode_command, encode_round
from strategies.shedding.registry import DEFAULT
from strategies.shedding.uniform.settings import UniformSettings
from tests.trial_settings import for_a_trial
from tests.unit.test_wire_encoding import COMMAND, ROUND

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLES_IN = ("consume_commands.py", "consume_commands.mjs")
MOVE = replace(COMMAND, text="80 % is too much")
UNLOAD = replace(MOVE, id="c-1-2-def", action="unload", destination=None, text="größer als nötig")
SHOWN = [
    "transfer t/ns/0x03000000_0x04000000 b1:8080 -> b2:8080 80 % is too much",
    "unload t/ns/0x03000000_0x04000000 b1:8080 -> anywhere: größer als nötig",
]


def program(example: str) -> list[str]:
    if example.endswith(".py"):
        return [sys.executable, str(EXAMPLES / example)]
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the example for Node.js was not run")
    return [node, str(EXAMPLES / example)]


def shown(command: list[str], stdin: bytes = b"") -> list[str]:
    done = subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=300)
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("example", EXAMPLES_IN)
def test_each_command_of_a_file_topic_is_acted_on_once(example: str, tmp_path: Path) -> None:
    command = program(example)
    with FileTopicWriter(tmp_path, segment_bytes=1) as writer:
        writer.append([encode_command(MOVE)])
        writer.append([encode_command(MOVE), encode_command(MOVE)[:50]])
        writer.append([encode_command(UNLOAD)])
        writer.append([encode_command(MOVE)])
    with (tmp_path / "segment-00000003.jsonl").open("ab") as torn:
        torn.write(encode_command(replace(MOVE, id="later"))[:80])
    assert shown([*command, str(tmp_path)]) == SHOWN


@pytest.mark.parametrize("example", EXAMPLES_IN)
def test_commands_may_come_on_standard_input_among_rounds(example: str) -> None:
    move, unload = encode_command(MOVE), encode_command(UNLOAD)
    lines = move, encode_round(ROUND), move, unload
    assert shown(program(example), b"".join(line + b"\n" for line in lines)) == SHOWN


@pytest.mark.parametrize("example", EXAMPLES_IN)
def test_the_examples_stay_short(example: str) -> None:
    lines = [line.strip() for line in (EXAMPLES / example).read_text("utf-8").splitlines()]
    code = [line for line in lines if line and not line.startswith(("#", "//", '"""'))]
    assert len(code) <= 15


def test_the_settings_of_a_small_cluster_are_settings() -> None:
    settings = load(EXAMPLES / "pulsar.toml")
    uris = [str(topic) for _, topic in settings.connections.topics.named()]
    servers = "pulsar://broker-1:6650,broker-2:6650/ops/rebalancer/"
    assert [uri.startswith(servers) for uri in uris] == [True] * 6
    assert settings.connections.pulsar.cluster == "c"
    assert settings.engine.strategy == DEFAULT


def test_the_settings_for_a_trial_cluster_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(for_a_trial((EXAMPLES / "pulsar.toml").read_text("utf-8")), "utf-8")
    assert load(file).engine.shedding == UniformSettings(
        throughput_ratio=1.5, max_unload=0.5, min_throughput=10_000, min_msg_rate=10
    )
