"""What is said of a round's proof, forecast and state, and of patterns that match no broker."""

from collections.abc import Iterator, Sequence

from pulsar_rebalancer.decisions.skip_and_certificate_texts import (
    certificate_text,
    forecast_text,
    sentences,
)
from pulsar_rebalancer.lab.demo.result import optimum_text
from strategies.cluster.model import Skip
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.filters.isolation import unmatched
from strategies.fold.reason_code_meanings import meanings_of
from strategies.round.commands_and_record import Proof
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.shedding.registry import SHEDDERS
from tests.golden.told import assert_told
from tests.world.placement import policies, policy


def test_what_a_round_proves(rewrite: bool) -> None:
    """Input: the figures of a certificate or of a forecast. Answer: what is said of it, and of a
    certificate also what is proven, and where its round is explained.
    """

    def tell(lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            kind, *words = line.split()
            figures = [None if one == "-" else float(one) for one in words]
            if kind == "forecast":
                error, *counts = figures
                yield repr(forecast_text(Forecast(error, *(int(one or 0) for one in counts))))
            else:
                made = Certificate(*figures)  # type: ignore[arg-type]  # as many as it has
                yield certificate_text(made) or "nothing is said"
                yield f"  proven: {optimum_text(made)!r}"
                yield f"  explained: {sentences(Proof(made, None, ()))}"

    assert_told("proofs.txt", tell, rewrite)


def test_which_state_several_reasons_make(rewrite: bool) -> None:
    """Input: codes of brokers; `kept:`, `refused:` codes of bundles of the first broker that stay,
    or that were selected and refused.
    """

    def tell(lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            skips = list[Skip]()
            for at, word in enumerate(line.split()):
                kind, _, code = word.rpartition(":")
                of_bundle = Skip("bundle", ("t/n/0x0_0x1",), code, kind, "a:1")
                of_broker = Skip("broker", (f"{'abc'[at % 3]}:1",), code, "seen")
                skips.append(of_bundle if kind else of_broker)
            refused = tuple(one for one in skips if one.text == "refused")
            others = tuple(one for one in skips if one.text != "refused")
            brokers, meanings = ("a:1", "b:1", "c:1"), meanings_of(*SHEDDERS.values())
            usage = dict.fromkeys(brokers, 0.5)
            state = state_of(RoundFacts((), brokers, {}, usage, others, meanings, refused))
            yield f"{state.code}: {state.text}"

    assert_told("states.txt", tell, rewrite)


def test_which_patterns_match_no_broker(rewrite: bool) -> None:
    """Input: a release and the primary patterns of a policy. Live: b0, b1 and b2, at port 8080."""

    def tell(lines: Sequence[str]) -> Iterator[str]:
        for line in lines:
            release, _, patterns = line.partition(" ")
            primary = patterns.split("|") if patterns else []
            known = policies(policy("p", ["t/.*"], primary), by_id=release == "5.0")
            live = ("b0:8080", "b1:8080", "b2:8080")
            yield unmatched(known, known.isolation[0], live) or "all match"

    assert_told("unmatched.txt", tell, rewrite)
