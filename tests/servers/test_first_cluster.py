"""docs/FIRST_CLUSTER.md, followed to the letter on a real cluster of either load manager: at its
end bundles have moved.

`pytest tests/servers/test_first_cluster.py -m slow -rP` prints what the commands of the page print.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sinks.topics.topic_settings import TopicAccess
from tests.architecture.readme import shown_commands
from tests.control_topic import TOPICS, Control
from tests.trial_settings import for_a_trial
from tools.processes.real_job import environment_of_a_short_run
from tools.servers.logged_process import dying_with_us
from tools.servers.pulsar_cluster import Manager, PulsarCluster, pulsar_cluster, token_of
from tools.traffic.skewed_users import skewed_users
from tools.waiting import eventually

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]
PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/FIRST_CLUSTER.md").read_text("utf-8")
#: Programs that keep running.
RUNNING = tuple(
    f"rebalancer {words}"
    for words in ("collect --config FILE", "run --config FILE", "execute --config FILE --apply")
)
#: Rounds come once a minute, and the machine may be busy with other things.
LONG_S = 900.0
#: The brokers of a test share the CPU of one machine; this is what docs/CHOOSING.md says for such
#: brokers.
ONE_HOST = "[weights]\ncpu = 0\n"


@pytest.fixture
def stock(
    manager: Manager, jdk: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarCluster]:
    """With tokens, and with the shedder on, as brokers are when they are installed."""
    folder, more = tmp_path_factory.mktemp("first"), {"loadBalancerSheddingEnabled": "true"}
    with pulsar_cluster(folder, manager, guarded=True, more=more) as cluster:
        yield cluster


def places(cluster: PulsarCluster, folder: Path) -> Mapping[str, str]:
    """What the page and the example call the brokers and folders, and what they are here."""
    found = {"/etc/rebalancer": str(folder / "etc"), "/var/lib/rebalancer": str(folder / "var")}
    for number, broker in enumerate(cluster.brokers[:2], start=1):
        host = broker.rpartition(":")[0]
        conf = (cluster.server.folder / f"{host}.conf").read_text("utf-8")
        (port,) = re.findall(r"^brokerServicePort=(\d+)$", conf, re.MULTILINE)
        found |= {f"broker-{number}:8080": broker, f"broker-{number}:6650": f"{host}:{port}"}
    return found


def here(text: str, names: Mapping[str, str]) -> str:
    for name, place in names.items():
        text = text.replace(name, place)
    return text


def environment() -> dict[str, str]:
    """A shell in which `rebalancer` is installed. Spark waits 10 s for Python; on a busy machine
    that takes longer.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    patient = {"REBALANCER_JOB__START_TIMEOUT_MS": "3600000"}
    return environment_of_a_short_run() | patient | {"PATH": path}


def asked(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        check=False,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )


@contextmanager
def running(command: str, log: Path) -> Iterator[None]:
    """One of the programs; SIGTERM at the end, after which it must have ended well."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*dying_with_us(), "bash", "-c", f"exec {command}"],
            env=environment(),
            stdout=out,
            stderr=out,
        )
    try:
        yield
        assert process.poll() is None, log.read_text("utf-8")
        process.terminate()
        assert process.wait(LONG_S) == 0, log.read_text("utf-8")
    finally:
        process.kill()
        process.wait()


def settings(manager: Manager, names: Mapping[str, str]) -> str:
    """The example with what the page says to change; the brokers of a test are nearly idle."""
    text = for_a_trial((PROJECT / "examples/pulsar.toml").read_text("utf-8"))
    example = here(text, names)
    assert 'load_manager = "modular"' in example
    return example.replace('load_manager = "modular"', f'load_manager = "{manager}"') + ONE_HOST


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_the_page_leads_from_a_stock_cluster_to_bundles_that_move(
    manager: Manager, stock: PulsarCluster, tmp_path: Path
) -> None:
    names = places(stock, tmp_path)
    file = f"{names['/etc/rebalancer']}/rebalancer.toml"
    Path(file).parent.mkdir()
    Path(file).write_text(settings(manager, names), "utf-8")
    Path(names["/etc/rebalancer"], "token").write_text(token_of("admin"), "utf-8")
    topics = {name: f"pulsar://{names['broker-1:6650']}/ops/rebalancer/{name}" for name in TOPICS}
    control = Control(tmp_path, topics, TopicAccess(pulsar=stock.settings(tmp_path)))
    commands = [here(shown.command, names) for shown in shown_commands(PAGE)]
    exported = next(command for command in commands if command.startswith("export "))
    printed = dict[str, str]()

    def happens(true: Callable[[], bool], otherwise: str) -> None:
        eventually(true, LONG_S, f"{otherwise}, see {tmp_path}", 2)

    with ExitStack() as stack:
        users = stack.enter_context(
            skewed_users(stock, stock.server.folder, "t/users", bundles=16, msgs=200.0)
        )
        before = users.owners()
        for command in commands:
            if command.replace(file, "FILE") in RUNNING:
                stack.enter_context(running(command, tmp_path / f"{command.split()[1]}.log"))
                continue
            if command.startswith(("rebalancer explain", "rebalancer execute")):
                happens(lambda: bool(control.read("commands")), "no round commands anything")
            done = asked(f"{exported}; {command}")
            printed[command] = done.stdout + done.stderr
            print(f"$ {command}\n{printed[command]}")
            if command.startswith("rebalancer doctor"):
                continue
            assert done.returncode == 0, (command, printed[command])
            if "--once" in command:
                assert users.owners() == before, "nothing moves yet"
        happens(
            lambda: "applied" in {one.status for one in control.outcomes()},
            "nothing was carried out",
        )
        happens(lambda: bool(after := users.owners()) and after != before, "no bundle has moved")

    (doctor,) = (said for words, said in printed.items() if words.startswith("rebalancer doctor"))
    (failed,) = [line for line in doctor.splitlines() if line.startswith("fail")]
    assert failed.split()[1:3] == ["built-in", "shedding"]
    (dry,) = (said for words, said in printed.items() if re.search("execute.*--once$", words))
    assert "dry run, nothing is changed (add --apply)" in dry
    assert "dry-run" in dry.splitlines()[-1]
    assert control.read("rejected") == []
