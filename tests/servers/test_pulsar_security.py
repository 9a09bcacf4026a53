"""A guarded cluster by TLS: REST and clients get in with one set of settings, strangers get one
sentence, secrets show nowhere.
"""

import secrets
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from sinks.secret_file import Secret
from sinks.topics.topic_settings import TopicAccess
from sinks.wire.record_decoding import decode
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import LoadReport, Sweep
from tests.control_topic import TOPICS, Control, command
from tests.servers.pulsar_commands import around, execute, words
from tests.unit.command_line import rebalancer
from tools.processes.process import WITH_TRACES, Process
from tools.servers.pulsar_cluster import PulsarCluster, token_of
from tools.traffic.bundle_users import Bundles, traffic
from tools.waiting import eventually

pytestmark = pytest.mark.servers


@pytest.fixture
def cluster(guarded_pulsar: PulsarCluster) -> PulsarCluster:
    return guarded_pulsar


def test_by_tls_the_load_is_followed_and_commands_are_carried_out(
    guarded_pulsar: PulsarCluster, used: Bundles, control: Control, tmp_path: Path
) -> None:
    settings = guarded_pulsar.secure(tmp_path)
    with traffic(used):
        seen = rebalancer("collect", "--once", "--json", *words(settings))
    bundle = used.all[0]
    control.send(command(bundle, used.owner(bundle), used.others(bundle)[0]))

    assert execute(settings, control).code == exit_codes.OK

    assert seen.json["load_manager"] == "extensible"
    assert all(broker["missing"] is None for broker in seen.json["brokers"]), "REST and client"
    assert control.verdicts() == [("applied", "")]


def test_a_broker_that_is_not_trusted_is_one_sentence(
    guarded_pulsar: PulsarCluster, control: Control, tmp_path: Path
) -> None:
    settings = guarded_pulsar.secure(tmp_path)
    somebody_else = Path(settings.tls_ca_file).with_name("client.pem")
    settings = replace(settings, tls_ca_file=str(somebody_else))
    for answer in (rebalancer("collect", "--once", *words(settings)), execute(settings, control)):
        assert answer.code == exit_codes.ERROR
        assert "presents a TLS certificate that is not trusted" in answer.words
        assert "pulsar.tls_ca_file" in answer.words
        assert "Traceback" not in answer.words
        assert len(answer.err.strip().splitlines()) <= 4


@pytest.mark.parametrize(
    "token", [None, "not.a.token", token_of("somebody")], ids=["none", "broken", "without-rights"]
)
def test_who_has_no_good_token_hears_one_clear_error(
    guarded_pulsar: PulsarCluster, control: Control, tmp_path: Path, token: str | None
) -> None:
    settings = guarded_pulsar.settings(tmp_path, token)
    if token is None:
        settings = replace(settings, token_file="")
    for answer in (
        execute(settings, control),
        rebalancer("collect", *words(settings), *around(control)),
    ):
        assert answer.code == exit_codes.ERROR
        assert "pulsar.token_file" in answer.words
        assert "Traceback" not in answer.words
        assert token is None or token not in answer.words
    examined = rebalancer("doctor", "--no-spark-start", "--json", *words(settings)).json
    (status,) = [one["status"] for one in examined["findings"] if one["check"] == "token"]
    assert status == "fail"


@pytest.mark.spark
def test_token_and_key_show_nowhere_and_all_is_done_by_tls(
    guarded_pulsar: PulsarCluster, used: Bundles, tmp_path: Path
) -> None:
    settings = guarded_pulsar.secure(tmp_path)
    uris = {name: guarded_pulsar.secure_topic(f"hidden/topics/{name}") for name in TOPICS}
    control = Control(tmp_path, uris, TopicAccess(pulsar=settings))
    key, own = a_key(tmp_path)
    common = [*words(settings), *around(control), "--set", f"signing.key_file={key}"]
    with ExitStack() as stack, traffic(used):

        def begin(name: str, *more: object) -> Process:
            log = tmp_path / f"{name}.log"
            return stack.enter_context(Process(log, name, *common, *more, environment=WITH_TRACES))

        collect = begin("collect", "--set", "collector.pass_interval_ms=2000")
        eventually(lambda: Sweep in kinds_of(control), 120, "no sweep")
        run = begin("run", "--drain", "--set", f"job.checkpoint={tmp_path / 'checkpoint'}")
        bundle = used.all[0]
        control.send(command(bundle, used.owner(bundle), used.others(bundle)[0]), key=own)
        act = begin("execute", "--apply", "--once")
        lines: set[str] = set()

        def both_ended() -> bool:
            lines.update(everybody())
            return not run.runs and not act.runs

        eventually(both_ended, 300, "job or executor do not end", 0.5)
        codes = [collect.stop(120), run.ended(120), act.ended(120)]
        assert codes == [0, 0, 0], [one.said for one in (collect, run, act)]
        wrong = tmp_path / "wrong"
        wrong.write_text(token_of("admin") + "x", "utf-8")
        denied = begin("execute", "--set", f"pulsar.token_file={wrong}", "--apply", "--once")
        assert denied.ended(120) == exit_codes.ERROR

    assert control.verdicts() == [("applied", "")]
    assert LoadReport in kinds_of(control)
    assert control.read("rounds"), "the job has read its topic by TLS, and written one"
    seen = "\n".join(lines)
    assert "rebalancer" in seen, "the processes were looked at"
    own_files = {tmp_path / "token", wrong, key}
    written = [file for file in tmp_path.rglob("*") if file.is_file() and file not in own_files]
    assert len(written) > 10
    places = {str(file): [file.read_bytes()] for file in written}
    places |= {"processes": [seen.encode()], **{name: control.read(name) for name in TOPICS}}
    for secret in (token_of("admin").encode(), key.read_bytes()):
        assert [place for place, found in places.items() if secret in b"\n".join(found)] == []


def kinds_of(control: Control) -> set[type]:
    return {type(decode(record, b"")) for record in control.read("telemetry")}


def everybody() -> set[str]:
    """What anybody on this machine can see of the processes that run."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                found.add((process / "cmdline").read_text("utf-8", errors="replace"))
            except OSError:
                continue
    return found


def a_key(folder: Path) -> tuple[Path, SigningKey]:
    file = folder / "key"
    file.write_text(secrets.token_hex(32), "utf-8")
    return file, SigningKey(Secret(file.read_bytes()))
