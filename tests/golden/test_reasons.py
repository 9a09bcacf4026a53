"""The order in which reason codes decide the state of a round, and what they mean, are those of
reasons.txt; `make golden` rewrites it.
"""

from pathlib import Path

from strategies.fold.reason_code_meanings import meanings_of
from strategies.shedding.registry import SHEDDERS
from strategies.states_and_advice_of_codes import Meaning
from tests.golden.printed import compare

_FILE = Path(__file__).with_name("reasons.txt")


def line(one: Meaning) -> str:
    if one.state is None:
        return f"   - {one.code}: only accompanies others. {one.advice}".rstrip()
    asks = " (its bundles say why)" if one.asks_bundles else ""
    speaks = " (speaks for the round)" if one.speaks_for_round else ""
    return f"{one.rank:4} {one.code}: {one.state}{asks}{speaks}. {one.advice}"


def test_the_order_and_the_meanings_are_those_of_the_file(rewrite: bool) -> None:
    found = meanings_of(*SHEDDERS.values()).values()
    ranked = sorted(found, key=lambda one: (one.state is None, one.rank, one.code))
    printed = "".join(f"{line(one)}\n" for one in ranked)
    compare(_FILE, [printed], rewrite)
