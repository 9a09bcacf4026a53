"""What `explain` says of an executor's limits is what the executor's judge does, for all settings
and commands, where the cluster agrees to every command.
"""

from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.decisions.explain.executor_limits import ExecutorLimits, limits_verdicts
from pulsar_rebalancer.decisions.explain.subject import ExplainedSubject, Located
from pulsar_rebalancer.decisions.log import DecisionLog
from sinks.executor.judge_command import Judgement, judge
from sinks.executor.settings import ExecutorConfig, ExecutorSettings, admission_rules
from strategies.cluster.model import Command
from strategies.executor.admission import AdmissionRules, ClusterFacts, CommandFacts
from tests.control_topic import command

NOW_MS = 1_764_000_000_000
BUNDLES = (
    "t/x/0x00000000_0x40000000",
    "t/y/0x40000000_0x80000000",
    "u/x/0x00000000_0x80000000",
    "t/../0x00000000_0x80000000",
    "pulsar/system/0x00000000_0xffffffff",
    "t/x/__change_events/0x00000000_0xffffffff",
)
NAMESPACES = ("", "t/x", "t/*", "*", "u/x,t/y")
WINDOWS = ("", "00:00-24:00", "Mon 00:00-00:01", "Mon-Fri 06:00-20:00", "20:00-06:00")

rules = st.builds(
    lambda actions, allow, deny, windows: admission_rules(
        ExecutorSettings(actions=",".join(actions), allow=allow, deny=deny, windows=windows)
    ),
    st.lists(st.sampled_from(("unload", "transfer", "split")), unique=True),
    st.sampled_from(NAMESPACES),
    st.sampled_from(NAMESPACES),
    st.sampled_from(WINDOWS),
)
times = st.integers(0, 7 * 24 * 60).map(lambda minutes: NOW_MS + minutes * 60_000)
pauses = st.sampled_from(({}, {"c": "Ann (a test)"}))
executors = st.builds(ExecutorLimits, rules, times, st.booleans(), pauses, st.booleans())
actions = st.sampled_from(("unload", "transfer", "split", "throttle"))


def agreeing(asked: Command) -> ClusterFacts:
    """A cluster in which every command fits."""
    return ClusterFacts(("a:1", "b:1"), asked.source)


def executor_says(asked: Command, facts: CommandFacts, given_: AdmissionRules) -> Judgement:
    return judge(asked, facts, agreeing, ExecutorConfig("c", given_, apply=True))


def facts_of(limits: ExecutorLimits, newest_epoch: int = 0) -> CommandFacts:
    """What an executor knows that sees the same clock and the same pause file."""
    return CommandFacts(
        limits.now_ms,
        newest_epoch=newest_epoch,
        paused=limits.paused is True,
        paused_by=limits.paused_by.get("c", ""),
    )


def words(judgement: Judgement) -> tuple[str | None, str | None]:
    effect = judgement.effect
    return (None, None) if effect is None else (effect.status, effect.reason)


@given(
    limits=executors,
    bundle=st.sampled_from(BUNDLES),
    action=actions,
    age_ms=st.sampled_from((-600_000, 0, 299_999, 300_000, 900_000)),
    epochs=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_of_a_published_command_explain_says_what_the_executor_does(
    limits: ExecutorLimits, bundle: str, action: str, age_ms: int, epochs: tuple[int, int]
) -> None:
    issued_ms = limits.now_ms - age_ms
    own, other = (
        command(
            name,
            "a:1",
            "b:1" if action in ("transfer", "unload") else None,
            action=action,
            epoch=epoch,
            issued_at_ms=issued_ms,
            expires_at_ms=issued_ms + 300_000,
        )
        for name, epoch in zip((bundle, "t/other/0x00000000_0xffffffff"), epochs, strict=True)
    )
    whole = DecisionLog((), (own, other), has_outcomes=True)
    located = Located(ExplainedSubject("command", own.id), whole.of_epoch(own.epoch))

    (verdict,) = limits_verdicts(located, whole, limits)

    facts = facts_of(limits, newest_epoch=max(epochs))
    said = verdict.as_object()
    reason = None if verdict.objection is None else str(verdict.objection)
    assert (said["status"], reason) == words(executor_says(own, facts, limits.rules))
    assert reason is not None or limits.approval == ("if its plan is approved" in verdict.line)
    assert (reason is None) == (f"would apply command {own.id} now" in verdict.line)
    assert reason is None or reason in verdict.line


@given(limits=executors, bundle=st.sampled_from(BUNDLES))
def test_of_a_bundle_without_a_command_explain_says_what_the_executor_would_do(
    limits: ExecutorLimits, bundle: str
) -> None:
    # The only cluster is the executor's.
    nothing = DecisionLog((), (command("t/other/0x00000000_0xffffffff", "a:1"),))
    located = Located(ExplainedSubject("bundle", bundle), nothing, owner="a:1")

    verdicts = limits_verdicts(located, nothing, limits)

    answers = {action: verdict for verdict in verdicts for action in verdict.actions}
    assert sorted(answers) == ["split", "transfer", "unload"]
    for action, verdict in answers.items():
        asked = command(
            bundle,
            "a:1",
            "b:1" if action == "transfer" else None,
            action=action,
            issued_at_ms=limits.now_ms,
            expires_at_ms=limits.now_ms + 300_000,
        )
        status, reason = words(executor_says(asked, facts_of(limits), limits.rules))
        assert verdict.as_object()["status"] == status
        assert (None if verdict.objection is None else str(verdict.objection)) == reason
        assert reason is None or reason in verdict.line
