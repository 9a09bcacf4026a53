"""Records of other programs on topics of real servers: `explain`, `shadow`, `replay` and `doctor`
read past them and name their places.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from sinks.topics.open_topics import open_reader
from sinks.topics.topic_settings import TopicAccess
from tests.telemetry_lines import bundle, load_report, sweep
from tests.topic_uris import topic_of, topic_settings
from tests.unit.command_line import Answer, rebalancer
from tests.world.uneven_log import EAGER_WORDS, recorded, uneven
from tools.processes.set_words import set_words
from tools.servers.pulsar_cluster import PulsarCluster
from tools.servers.pulsar_topics import put as put_on_pulsar

pytestmark = pytest.mark.servers
KINDS = ("telemetry", "rounds", "commands")
FOREIGN = [b"\x00\xff no JSON", b'{"hello":"world"}', b'"' + b"x" * 300]


@dataclass(frozen=True)
class Decided:
    """What a job left on its topics, by topic."""

    folder: Path
    rounds: Sequence[bytes]
    commands: Sequence[bytes]


@pytest.fixture
def decided(tmp_path: Path) -> Decided:
    rebalancer(
        "replay", recorded(tmp_path, uneven(rounds=3)), "--out", tmp_path / "out", *EAGER_WORDS
    )
    rounds, commands = (
        (tmp_path / "out" / f"{kind}.jsonl").read_bytes().splitlines()
        for kind in ("rounds", "commands")
    )
    return Decided(tmp_path / "out", rounds, commands)


def strewn(lines: Sequence[bytes]) -> list[bytes]:
    """The records between foreign ones: of a later version, with an unknown action, of another
    program.
    """
    first = json.loads(lines[0])
    later, unknown = ({**first, "v": 99}, {**first, "action": "explode", "closed_by": "magic"})
    return [
        json.dumps(later).encode(),
        lines[0],
        *FOREIGN,
        json.dumps(unknown).encode(),
        *lines[1:],
        b"{",
    ]


def check(
    uris: dict[str, str], decided: Decided, places: dict[str, str], login: Sequence[str] = ()
) -> None:
    """`places`: where the first record of a later version is on each topic. `login`: settings."""
    given = [*set_words(topic_settings(uris)), *login]
    whole = rebalancer("explain", "1", "--from", decided.folder)
    answer = rebalancer("explain", "1", *given)
    assert (answer.code, answer.out) == (0, whole.out), answer.err
    for kind in ("rounds", "commands"):
        one, several = f"1 record that is no {kind[:-1]}", f"2 records that are no {kind}"
        later = f"{one} [unknown-version]: {places[kind]}. $.v is 99"
        for said in (later, f"{several} [not-json]: "):
            assert f"{uris[kind]}: skipped {said}" in answer.err

    compared = rebalancer("shadow", "--json", *given)
    assert (compared.code, compared.json["rounds"]) == (0, 3), compared.err
    assert (
        f"{uris['telemetry']}: skipped 1 record that is no telemetry record [not-json]: "
        f"{places['telemetry']}. " in compared.err
    )
    assert "no commands [not-json]" in compared.err

    examined = rebalancer("doctor", "--no-spark-start", "--json", *given).json["findings"]
    (epochs,) = [one for one in examined if one["check"] == "epochs"]
    assert (epochs["status"], "newest on topics.rounds: 1" in epochs["text"]) == ("warn", True)
    assert f"[unknown-version]: {places['rounds']}. " in epochs["text"]

    replayed: Answer = rebalancer("replay", "--from-topic", uris["telemetry"], *login)
    assert f"rejected not-json at {places['telemetry']} of {uris['telemetry']}: " in replayed.out


def telemetry() -> list[bytes]:
    return [load_report("a:1", 0, {bundle(1): 10.0}), sweep(1, "a:1"), b"foreign"]


@pytest.mark.parametrize("kind", ["pulsar", "guarded_pulsar"])
def test_on_pulsar_they_are_named_by_message_id(
    cluster: PulsarCluster, decided: Decided, tmp_path: Path
) -> None:
    uris = {kind: cluster.topic(f"foreign/records/{kind}") for kind in KINDS}
    put_on_pulsar(cluster, uris["telemetry"], telemetry(), batch=1)
    for kind, lines in (("rounds", decided.rounds), ("commands", decided.commands)):
        put_on_pulsar(cluster, uris[kind], strewn(lines), batch=5)
    settings = cluster.settings(tmp_path)

    def nth(kind: str, number: int) -> str:
        with closing(open_reader(topic_of(uris[kind]), TopicAccess(pulsar=settings))) as reader:
            ledger = reader.read()[0].position.offset >> 32
        return f"partition 0, message {ledger}:{number}:0"

    login = ["--set", f"pulsar.token_file={settings.token_file}"]
    places = {"telemetry": 2, "rounds": 0, "commands": 0}
    check(uris, decided, {kind: nth(kind, number) for kind, number in places.items()}, login)
