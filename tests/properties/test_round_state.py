"""The state of a round, for every strategy in both modes: there is exactly one, and it agrees with
the round's commands, with its skips and with the words of `explain`.
"""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_rebalancer.decisions.explain.sentences import round_lines
from pulsar_rebalancer.decisions.log import DecisionLog
from sinks.wire.codec import decode_round, encode_round
from strategies.cluster.rule_settings import LimitSettings
from strategies.fold.engine import EngineSettings, rules_of
from strategies.fold.meanings import meanings_of
from strategies.reason_codes import STATES
from strategies.round.round import judge_cluster, run_round
from strategies.round.round_input import RoundInput
from strategies.settings import Mode
from strategies.shedding.registry import SHEDDERS
from strategies.splitting.limits import SplitSettings
from tests.properties.legal import EAGER, WEIGHTS, modes
from tests.properties.test_round import SETTINGS, inputs, with_its_own_memory
from tests.world.brokers import shedder

MEANINGS = meanings_of(*SHEDDERS.values())

#: Limits that a round may run into, one after the other.
LIMITS = (
    LimitSettings(),
    LimitSettings(moves_per_round=1),
    LimitSettings(windows="Mon 00:00-00:01"),
    LimitSettings(excluded_namespaces="t/*"),
    LimitSettings(excluded_brokers="a*"),
)
#: Reasons of bundles that a strategy does not select at all.
UNSELECTED = {"excluded-namespace", "has-policies", "policies-hold", "enough-for-one-round"}
any_strategy = pytest.mark.parametrize("strategy", list(SHEDDERS))


def settings(strategy: str, mode: Mode, limits: LimitSettings, *, eager: bool) -> EngineSettings:
    return EngineSettings(
        strategy,
        mode,
        EAGER[strategy] if eager else None,
        WEIGHTS,
        SETTINGS,
        limits=limits,
        splitting=SplitSettings(enabled=eager),
    )


@pytest.mark.heavy
@any_strategy
@given(
    given_=inputs,
    mode=modes,
    limits=st.sampled_from(LIMITS),
    eager=st.booleans(),
)
def test_a_round_has_one_state_and_it_is_that_of_its_decisions(
    strategy: str, given_: RoundInput, mode: Mode, limits: LimitSettings, eager: bool
) -> None:
    chosen, given_ = (
        settings(strategy, mode, limits, eager=eager),
        with_its_own_memory(given_, strategy),
    )
    rules, rule = rules_of(chosen), shedder(strategy, chosen.shedding, WEIGHTS, mode)
    result = run_round(given_, rule, rules)
    done, state = result.round, result.round.state

    assert state is not None
    assert state.code in STATES
    assert (state.code == "acting") == bool(result.commands)
    assert {skip.code for skip in done.skips} <= {*MEANINGS}
    decisive = re.findall(r"\[([a-z-]+)\]", state.text)
    assert all(code in {skip.code for skip in done.skips} for code in decisive)
    if state.code not in ("acting", "blind"):
        meant = MEANINGS[decisive[-1]].state
        assert state.code == meant or (
            state.code == "waiting"
            and (meant == "balanced" or (meant == "cannot-help" and done.counted))
        )
    if done.counted:
        assert state.code not in ("balanced", "cannot-help")
    assert done.counted == (len(given_.under_way) if mode == "fixed" else 0)
    assert {*done.measured} <= {*done.brokers}
    if state.code == "not-allowed":
        selected = judge_cluster(given_, rule, rules).shedding.decisions
        assert selected or decisive[-1] in UNSELECTED or chosen.splitting.enabled

    read = decode_round(encode_round(done))
    assert read.state == state
    history = DecisionLog((read,), result.commands)
    assert f"  {state.line}" in round_lines(read, history)
    older = replace(read, state=None)
    assert decode_round(encode_round(older)) == older
