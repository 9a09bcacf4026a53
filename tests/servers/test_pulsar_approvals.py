"""Plans that people approve, on a real Pulsar cluster: the topics of the rebalancer are on the
cluster whose bundles move, and the executor is a process that can be killed.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest

from pulsar_rebalancer.decisions.plans import Plan, approval_for, plans_of, read_plans
from pulsar_rebalancer.settings.merge_sources import load
from sinks.executor.journal import unfinished_commands
from sinks.secret_file import Secret
from sinks.wire.operator_records import encode_approval
from sinks.wire.record_encoding import encode_round
from sinks.wire.signing_keys import SigningKey
from strategies.cluster.model import Command
from tests.control_topic import TOPICS, Control, command, now_ms
from tests.topic_uris import topic_settings
from tests.unit.command_line import Answer, rebalancer
from tests.unit.test_wire_encoding import ROUND
from tools.processes.real_executor import RealExecutor
from tools.processes.set_words import set_words
from tools.servers.pulsar_cluster import PulsarCluster
from tools.traffic.bundle_users import Bundles, bundles
from tools.waiting import eventually

pytestmark = [
    pytest.mark.servers,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="reads command lines in /proc"),
]
KEY = SigningKey(Secret(b"the approvals key of this test"))


@dataclass(frozen=True)
class Operations:
    """The job's side of the topics, an executor that waits for approvals, and a person at a command
    line.
    """

    control: Control
    executor: RealExecutor
    settings: dict[str, object]

    def decides(self, *commands: Command) -> None:
        """The job publishes a round with these commands, signed."""
        first = commands[0]
        done = replace(
            ROUND,
            cluster="c",
            epoch=first.epoch,
            round=first.round,
            ts=first.issued_at_ms,
            commands=tuple(one.id for one in commands),
        )
        self.control.send(*commands, key=self.executor.key)
        self.control.write("rounds", [self.executor.key.sign(encode_round(done))])

    def types(self, *words: object) -> Answer:
        """The person's command line; only the executor has the state folder."""
        return rebalancer("plans", *words, *set_words(self.settings))

    def plan(self, round_: int) -> Plan:
        """The plan of a round, as every reader of the topics sees it."""
        flags = [f"{name}={value}" for name, value in self.settings.items()]
        found = plans_of(read_plans(load(flags=flags).connections), now_ms())
        return next(one for one in found if one.round == round_)

    def held(self, number: int) -> None:
        """Waits until the executor has held this number of commands since its first start."""
        self.wait(
            lambda: self.executor.out.read_text("utf-8").count("waits for approval]") >= number,
            f"not {number} commands are held",
        )

    def wait(self, true: Callable[[], bool], otherwise: str) -> None:
        eventually(true, 120, lambda: f"{otherwise}: {self.executor.last_words()}")


@contextmanager
def operations(cluster: PulsarCluster, folder: Path) -> Iterator[Operations]:
    topics = {name: cluster.topic(f"approvals/{uuid4().hex}/{name}") for name in TOPICS}
    control = Control(folder / "topics", topics)
    (folder / "approvals-key").write_bytes(KEY.secret.reveal())
    (folder / "approvals-key").chmod(0o600)
    approvals = {
        "signing.approvals_key_file": folder / "approvals-key",
        "executor.approval": "required",
    }
    # A turn per minute: the plan is not done before the executor is killed.
    slow = {**approvals, "executor.max_concurrent": 1, "executor.max_per_minute": 1}
    person = {
        **approvals,
        "signing.key_file": folder / "executor" / "key",
        "pulsar.cluster": "c",
        **topic_settings(topics),
    }
    with RealExecutor(folder / "executor", cluster.settings(folder), control, **slow) as executor:
        yield Operations(control, executor, person)


def moves(used: Bundles, round_: int, **changes: object) -> list[Command]:
    """Each bundle of the namespace to another broker."""
    return [
        command(one, used.owner(one), used.others(one)[0], round=round_, **changes)
        for one in used.all
    ]


def owners(used: Bundles) -> dict[str, str]:
    return {one: used.owner(one) for one in used.all}


def calls(used: Bundles) -> list[int]:
    """Number of unloads that the brokers have made, per bundle, by the log of their web service:
    they answer 204. A broker that passes a request on answers 307.
    """
    log = used.cluster.server.log.read_text("utf-8", errors="replace")
    return [
        len(re.findall(rf'"PUT /admin/v2/namespaces/{re.escape(one)}/unload[^"]*" 204 ', log))
        for one in used.all
    ]


def test_a_plan_is_denied_the_next_one_approved_and_finished_after_a_kill(
    pulsar: PulsarCluster, tmp_path: Path
) -> None:
    with operations(pulsar, tmp_path) as on, bundles(pulsar, f"t/{tmp_path.name}") as used:
        before = owners(used)
        on.executor.start("--apply")
        on.decides(*moves(used, round_=1))
        on.held(4)
        denied_before_any_call(on, used)
        assert owners(used) == before

        on.decides(*(plan := moves(used, round_=2)))
        on.held(8)
        killed_after_the_first_move(on, used)
        finished_after_the_next_start(on, used, plan)

        late_approval_is_refused(on, used)


def denied_before_any_call(on: Operations, used: Bundles) -> None:
    assert on.plan(1).state == "waiting"
    assert on.types("deny", "1.1", "--reason", "not during the sale", "--by", "bo").code == 0
    on.wait(lambda: on.plan(1).state == "denied", "the plan is not denied")
    on.wait(lambda: len(on.control.outcomes()) == 4, "its commands have no outcomes")
    assert {one.reason for one in on.control.outcomes()} == {"denied: bo: not during the sale"}
    assert calls(used) == [0, 0, 0, 0]


def killed_after_the_first_move(on: Operations, used: Bundles) -> None:
    assert on.types("approve", "1.2", "--reason", "fits", "--by", "anna").code == 0
    on.wait(lambda: len(on.control.outcomes()) == 5, "the first command is not carried out")
    on.executor.kill()
    assert sorted(calls(used)) == [0, 0, 0, 1]
    assert on.plan(2).state == "approved"


def finished_after_the_next_start(on: Operations, used: Bundles, plan: Sequence[Command]) -> None:
    on.executor.start("--apply", *set_words({"executor.max_per_minute": 0}))
    on.wait(lambda: len(on.control.outcomes()) == 8, "the plan is not finished")
    done = {one.command_id: one for one in on.control.outcomes()}
    assert len(done) == 8, "no command has two outcomes"
    assert calls(used) == [1, 1, 1, 1], "no bundle was unloaded twice"
    # The modular load manager may lose a destination; the outcome says so.
    assert {"applied"} <= {done[one.id].status for one in plan} <= {"applied", "failed"}
    assert on.plan(2).state in ("done", "partly")
    assert on.types("deny", "1.2", "--reason", "too late").code == 1


def late_approval_is_refused(on: Operations, used: Bundles) -> None:
    on.decides(*moves(used, round_=3, expires_at_ms=now_ms() + 8_000))
    on.wait(lambda: on.plan(3).complete, "the plan is not there")
    given = approval_for(
        on.plan(3), "approve", by="anna", reason="late", now_ms=now_ms(), new_id="late"
    )
    on.wait(lambda: len(on.control.outcomes()) == 12, "the commands do not expire")
    on.control.write("approvals", [KEY.sign(encode_approval(given))])
    on.wait(lambda: on.control.answers()[-1].approval_id == given.id, "no answer")
    answer = on.control.answers()[-1]
    too_late = "too-late: no command of this plan waits for approval any more (4 expired)"
    assert (answer.status, answer.reason) == ("refused", too_late)
    assert calls(used) == [1, 1, 1, 1]
    refused = on.types("approve", "1.3", "--reason", "late", "--by", "anna")
    assert refused.code == 1
    assert "has expired" in refused.err
    on.executor.kill()
    assert unfinished_commands(on.executor.folder / "state") == 0
    assert on.executor.leaks() == []
