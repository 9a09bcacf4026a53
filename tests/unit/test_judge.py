"""What the judge makes of a cluster that does not answer: nothing is carried out, and the outcome
says which of the two it was.
"""

from __future__ import annotations

import pytest

from sinks.executor.judge import judge
from sinks.executor.settings import ExecutorConfig
from strategies.cluster.model import Command
from strategies.errors import AdminError, BrokerUnavailable, NotOwned, Unauthorized
from strategies.executor.admission import ClusterFacts, CommandFacts
from tests.control_topic import command, now_ms
from tests.unit.executor_lives import ONE

MOVE = command(ONE, "a:1", "b:1")
KNOWN = CommandFacts(now_ms=now_ms())


def judged(error: AdminError) -> tuple[str, str | None, str | None]:
    def look(_: Command) -> ClusterFacts:
        raise error

    effect = judge(MOVE, KNOWN, look, ExecutorConfig("c", apply=True)).effect
    assert effect is not None
    return effect.status, effect.reason, effect.owner_after


def test_ownership_that_is_changing_refuses_the_command() -> None:
    assert judged(NotOwned("it is on the way")) == ("refused", "not-owned: it is on the way", None)


def test_a_cluster_that_is_silent_fails_it() -> None:
    assert judged(BrokerUnavailable("no answer")) == ("failed", "cluster-silent: no answer", None)


def test_a_token_that_is_refused_ends_the_executor() -> None:
    with pytest.raises(Unauthorized):
        judged(Unauthorized("401"))


@pytest.mark.parametrize(("apply", "status"), [(True, None), (False, "dry-run")])
def test_what_may_be_carried_out_comes_with_the_owner_and_the_brokers(
    apply: bool, status: str | None
) -> None:
    seen = ClusterFacts(("a:1", "b:1"), "a:1")
    found = judge(MOVE, KNOWN, lambda _: seen, ExecutorConfig("c", apply=apply))
    assert (found.effect and found.effect.status, found.owner, found.brokers) == (
        status,
        "a:1",
        ("a:1", "b:1"),
    )
    assert (
        found.effect is None
        or found.effect.reason == f"dry-run: would transfer {ONE} from a:1 to b:1"
    )
