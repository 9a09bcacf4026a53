"""Every code of a skip has one meaning, which stands beside the rule that gives it."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from strategies.fold.reason_code_meanings import RULES, meanings_of
from strategies.placement.registry import PLACERS
from strategies.shedding.registry import SHEDDERS
from strategies.states_and_advice_of_codes import STATES
from tests.architecture.layers import modules, parsed

STRATEGIES = Path(__file__).parents[2] / "strategies"
MEANINGS = meanings_of(*SHEDDERS.values())
#: Call → position of the code among its arguments.
CODE_AT = {"Skip": 2, "Refusal": 0, "bundles_left_alone": 1, "broker_skips": 0}
#: The same of decisions, whose codes have no meaning.
DECIDED_AT = {"Decision": 3, "SheddingReason": 0}
#: Modules whose codes belong to executors, clocks, rolls, rejected records and split boundaries,
#: and those that name states.
OTHERS = {
    "accept_by_hand", "accept_intent", "admission", "foreign_moves", "gate_and_breaker",
    "intent_refusals", "load_reports", "next_step", "objections_to_approvals",
    "producer_votes", "state_of_round", "states_and_advice_of_codes",
}  # fmt: skip
#: Codes of decisions and of placements that found a broker, names of topics and statuses.
NO_SKIPS = {
    "all-reported", "already-done", "apart-for-long", "avg-scores", "by-hand", "dry-run",
    "far-apart", "follow-up", "forecast-gap", "hot-bundle", "huge-gap", "its-turn", "lasting-gap",
    "least-rate", "least-used", "msg-rate", "near-limit", "no-candidates", "nobody-below-mean",
    "non-persistent", "overload-result", "rate-uneven", "rest-of-plan", "threshold-result",
    "throughput-uneven", "well-below-mean", "wide-gap",
}  # fmt: skip
KEBAB = re.compile(r"[a-z]+(-[a-z]+)+")


def literals(node: ast.AST) -> Iterator[str]:
    """The texts of a tree, without those of meanings."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "Meaning"):
        for one in ast.iter_child_nodes(node):
            yield from literals(one)


def codes_in(tree: ast.AST) -> Iterator[str]:
    """The codes of skips: at the place of a code, and anything that looks like one."""
    yield from at_places(tree, CODE_AT)
    decided = {*at_places(tree, DECIDED_AT)}
    yield from (text for text in literals(tree) if KEBAB.fullmatch(text) and text not in decided)


def at_places(tree: ast.AST, places: Mapping[str, int]) -> Iterator[str]:
    """The texts at a place among the arguments of calls. `places`: name of the function → place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            at = places.get(node.func.id)
            if at is not None and len(node.args) > at:
                yield from literals(node.args[at])


def given_in(folder: str) -> set[str]:
    """The codes of skips that the modules of a folder of `strategies` give."""
    files = [
        file
        for file in modules(STRATEGIES / folder)
        if file.stem not in OTHERS and file.parent.name != "java"
    ]
    return {code for file in files for code in codes_in(parsed(file))} - NO_SKIPS


@pytest.mark.heavy
def test_every_code_has_a_meaning_and_none_is_made_up() -> None:
    assert given_in("") == {*MEANINGS}


@pytest.mark.heavy
def test_a_meaning_stands_in_the_folder_whose_rules_give_the_code() -> None:
    folders = {rule.__name__.split(".")[1] for rule in RULES}
    given = {folder: given_in(folder) for folder in folders}
    away = [
        f"{rule.__name__}: {one.code}"
        for rule in RULES
        for one in rule.MEANINGS
        if one.code not in given[rule.__name__.split(".")[1]]
    ]
    assert away == []
    assert {one.code for entry in PLACERS.values() for one in entry.meanings} <= given["placement"]


@pytest.mark.parametrize("strategy", SHEDDERS)
def test_the_meanings_of_a_strategy_are_of_codes_that_only_it_gives(strategy: str) -> None:
    own = {one.code for one in SHEDDERS[strategy].meanings}
    others = (name for name in SHEDDERS if name != strategy)

    assert own <= given_in(f"shedding/{strategy}")
    assert not own & {code for name in others for code in given_in(f"shedding/{name}")}


def test_a_code_has_one_meaning_and_a_rank_one_code() -> None:
    all_meanings = [one for rule in RULES for one in rule.MEANINGS]
    all_meanings += [one for entry in PLACERS.values() for one in entry.meanings]
    all_meanings += [one for entry in SHEDDERS.values() for one in entry.meanings]
    codes = Counter(one.code for one in all_meanings)
    ranks = Counter(one.rank for one in all_meanings if one.state is not None)

    assert [code for code, count in codes.items() if count > 1] == []
    assert [rank for rank, count in ranks.items() if count > 1] == []
    assert min(ranks) > 0


def test_every_state_but_acting_has_codes_and_every_code_an_advice() -> None:
    deciding = [one for one in MEANINGS.values() if one.state is not None]
    assert {one.state for one in deciding} == {*STATES} - {"acting"}
    assert all(one.advice.endswith(".") for one in deciding)
