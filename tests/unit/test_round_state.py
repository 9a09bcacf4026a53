"""The state of a round: mixed reasons give the state that an operator acts on."""

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from sinks.wire.contracts.job_output import StateRecord
from strategies.cluster.model import Skip
from strategies.fold.reason_code_meanings import meanings_of
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.shedding.registry import SHEDDERS
from strategies.states_and_advice_of_codes import STATES, Meaning

MEANINGS = meanings_of(*SHEDDERS.values())


def test_the_wire_knows_the_same_states() -> None:
    assert get_args(get_type_hints(StateRecord)["code"]) == STATES


def facts(
    *skips: Skip,
    actions: tuple[str, ...] = (),
    refused: tuple[Skip, ...] = (),
    brokers: tuple[str, ...] = ("a:1", "b:1", "c:1"),
    stale: dict[str, str] | None = None,
    usage: tuple[float, ...] = (0.5, 0.5, 0.5),
) -> RoundFacts:
    figures = dict(zip(brokers, usage, strict=False))
    return RoundFacts(actions, brokers, stale or {}, figures, skips, MEANINGS, refused)


def of_broker(code: str, name: str = "a:1") -> Skip:
    return Skip("broker", (name,), code, f"it is {code}")


def of_bundle(code: str, name: str = "t/n/0x0_0x1", broker: str = "a:1") -> Skip:
    return Skip("bundle", (name,), code, f"it is {code}", broker)


def of_cluster(code: str, **evidence: float) -> Skip:
    return Skip("cluster", ("c",), code, f"it is {code}", None, evidence)


def test_commands_are_acting_whatever_else_is_left_alone() -> None:
    state = state_of(facts(of_cluster("cluster-full"), actions=("transfer", "split", "transfer")))

    assert (state.code, state.text) == ("acting", "the round has 3 commands: 1 split, 2 transfers")
    assert state.advice == "Nothing to do: executors apply the commands."


def test_bundles_of_a_plan_that_was_not_found_decide_nothing() -> None:
    """SteadyShedder names the bundles of the fuller broker; the verdict on the cluster counts."""
    state = state_of(facts(of_cluster("coarse-bundles"), of_bundle("excluded-namespace")))

    assert (state.code, state.text.endswith("[coarse-bundles]")) == ("cannot-help", True)


def test_old_figures_make_a_round_blind() -> None:
    stale = {"b:1": "newest report is 300 s old", "c:1": "no load figures yet"}
    state = state_of(facts(of_cluster("too-few-brokers"), brokers=("a:1",), stale=stale))

    judged = "1 of 3 have usable figures; b:1: newest report is 300 s old"
    assert (state.code, state.text) == ("blind", f"the brokers cannot be judged: {judged}")
    assert "rebalancer collect" in state.advice


def test_a_round_without_brokers_is_blind_but_one_alone_is_too_few() -> None:
    few = of_cluster("too-few-brokers")

    assert state_of(facts(few, brokers=())).code == "blind"
    assert state_of(facts(few, brokers=("a:1",))).code == "cannot-help"
    assert state_of(facts(of_broker("excluded-broker"), few, brokers=())).code == "cannot-help"


def test_figures_that_cannot_be_used_count_as_none() -> None:
    lost = Skip("broker", ("a:1", "b:1"), "unusable-figures", "no finite usage")

    assert state_of(facts(lost, of_broker("close-together", "c:1"))).code == "blind"


@pytest.mark.parametrize(
    ("skip", "usage", "code"),
    [
        (of_cluster("even", lasting_points=14.0), (0.9, 0.5, 0.4), "waiting"),
        (of_cluster("even", lasting_points=14.0), (0.5, 0.45, 0.4), "balanced"),
        (of_cluster("even"), (0.9, 0.5, 0.4), "balanced"),
        (of_cluster("below-threshold", threshold_percent=10.0), (0.9, 0.5, 0.4), "waiting"),
    ],
)
def test_a_gap_that_only_the_newest_figures_show_is_not_balanced(
    skip: Skip, usage: tuple[float, ...], code: str
) -> None:
    state = state_of(facts(skip, usage=usage))

    assert state.code == code
    assert ("the newest usages are 50.0 points apart" in state.text) == (code == "waiting")


def test_moves_under_way_are_waited_for() -> None:
    state = state_of(replace(facts(of_cluster("even")), under_way=2))

    assert ": 2 commanded moves count as done, and reports do not show them yet; " in state.text
    assert state.text.endswith("; with them, it is even [even]")
    assert "whether a plan waits for approval" in state.advice
    helpless = state_of(replace(facts(of_cluster("coarse-bundles")), under_way=1))
    assert ": 1 commanded move counts as done, and reports do not show it yet; " in helpless.text
    assert helpless.text.endswith("; with them, more moves cannot help [coarse-bundles]")


@pytest.mark.parametrize("code", sorted(one.code for one in MEANINGS.values() if one.state))
def test_no_cluster_is_done_or_beyond_help_while_moves_count_as_done(code: str) -> None:
    alone = state_of(facts(of_cluster(code)))
    state = state_of(replace(facts(of_cluster(code)), under_way=3))

    planned = {"balanced": "waiting", "cannot-help": "waiting"}
    assert state.code == planned.get(alone.code, alone.code)
    assert ("3 commanded moves count as done" in state.text) == (state.code == "waiting")


def test_codes_of_a_foreign_strategy_wait_and_keep_their_words() -> None:
    state = state_of(facts(of_broker("clock-ahead"), of_broker("of-my-own")))

    assert state.code == "waiting"
    assert state.text == "nothing moves in this round: a:1: it is of-my-own [of-my-own]"
    assert state_of(facts()).text.endswith("the strategy gives no reason")


def test_a_sentence_has_a_bound() -> None:
    long = Skip("broker", ("a" * 512,), "sole-bundle", "x" * 10_000)

    assert len(state_of(facts(long)).line) < 3_000


def test_a_strategy_of_a_users_own_says_what_its_codes_mean() -> None:
    """Its codes rank among those of the product, and its brokers may ask their bundles."""
    own = {
        "too-young": Meaning("too-young", "waiting", 605, "Wait a day."),
        "all-old": Meaning("all-old", "cannot-help", 1221, "Split them.", asks_bundles=True),
    }
    given = facts(of_broker("too-young"), of_broker("waiting-for-samples", "b:1"))
    young = state_of(replace(given, meanings={**MEANINGS, **own}))
    assert (young.code, young.advice) == ("waiting", "Wait a day.")
    assert young.text.endswith("[too-young]")

    kept = facts(of_broker("all-old"), of_bundle("cooling-down"))
    assert state_of(kept).text.startswith("nothing moves in this round")
    assert state_of(replace(kept, meanings={**MEANINGS, **own})).text.endswith("[cooling-down]")
