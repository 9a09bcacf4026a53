"""The record of a round: its digest, and the reasons that it names."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b

import numpy as np

from strategies.cluster.cool_downs import of_all_moves
from strategies.cluster.intent_state import NO_INTENTS, statuses
from strategies.cluster.model import Round, Skip
from strategies.cluster.packing import figures_to_list
from strategies.cluster.rival_state import used_by_rounds
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.cluster.round_state import RoundFacts, state_of
from strategies.figures.estimate import spread
from strategies.round.round_input import RoundInput, RoundResult, Rules
from strategies.shedding.registry import SHEDDERS

#: Number of bundles left alone that a round names: a fixed number, plus some per broker. The others
#: are counted.
_NAMED, _NAMED_PER_BROKER = 1_000, 20

#: Maximum characters of a sentence; names of brokers and bundles have at most 512.
_LONGEST_TEXT = 2_000


def begun_record(given: RoundInput, rules: Rules) -> Round:
    """The record of a round before anything is judged: no brokers and no commands."""
    nothing = spread([])
    return Round(
        cluster=given.cluster,
        round=given.number,
        epoch=rules.round.epoch,
        ts=given.now_ms,
        closed_by=given.closed_by,
        strategy=f"{rules.strategy}/{rules.mode}",
        brokers=(),
        stale={},
        usage={},
        usage_after={},
        spread=nothing,
        spread_after=nothing,
        throughput_spread=nothing,
        commands=(),
        skips=(),
        digest=_digest(given, rules.round.cool_down_ms),
        version=rules.version,
    )


def undecided(given: RoundInput, rules: Rules, code: str, text: str) -> RoundResult:
    """The result of a round that is set aside: no command, and the memory as it was, so that the
    next round tries again. `code`, `text`: why, as its skip.
    """
    skip = Skip("cluster", (given.cluster,), code, text)
    brokers = [one.broker for one in given.brokers]
    record = replace(
        begun_record(given, rules),
        skips=(skip,),
        state=state_of(RoundFacts((), brokers, {}, {}, (skip,), rules.meanings)),
        intents=statuses(given.state.intents),
    )
    return RoundResult((), record, given.memory, {}, intents=given.state.intents, decided=False)


def _digest(given: RoundInput, cool_down_ms: int) -> str:
    """Digest of the whole input of the round: two rounds with the same digest had the same
    input.
    """
    brokers = [
        (state.broker, state.bundles_digest, state.sampled_round, state.judged_after_ms)
        for state in given.brokers
    ]
    flights = {
        bundle: (move.source, move.destination, move.load, move.left)
        for bundle, move in given.under_way.items()
    }
    spent = [(one.ts, one.bundles, one.throughput) for one in given.state.spent]
    inputs: list[object] = [
        given.now_ms,
        brokers,
        of_all_moves(given.state, given.now_ms, cool_down_ms),
        flights,
        given.state.policies,
        spent,
        dict(given.state.advised),
    ]
    intents = replace(given.state.intents, early=())
    if intents != NO_INTENTS:  # without intents the digest is that of earlier versions
        inputs.append([asdict(intents), {name: one.bundles for name, one in given.owned.items()}])
    if given.state.rivals.moves:
        inputs.append(used_by_rounds(given.state.rivals))
    if given.state.intents.drains and given.state.pauses:  # only the pace of drains uses them
        inputs.append(given.state.pauses)
    seen = json.dumps(inputs, ensure_ascii=False)
    # As bytes, not as text: formatting 18 numbers per broker in decimal would take longer than the
    # decisions.
    figures = np.array([figures_to_list(state.figures) for state in given.brokers], dtype="<f8")
    return blake2b(seen.encode() + figures.tobytes(), digest_size=16).hexdigest()


def bounded(skips: Iterable[Skip], cluster: str, brokers: int) -> tuple[Skip, ...]:
    """The skips in their order, with at most as many names of bundles as a round of this number of
    brokers may hold.

    The evidence of a shortened skip has the number of removed names (`unnamed`); a last skip counts
    those without any name left, by code.
    """
    left = _NAMED + _NAMED_PER_BROKER * brokers
    kept, counted = list[Skip](), Counter[str]()
    for skip in skips:
        short = (
            skip
            if len(skip.text) <= _LONGEST_TEXT
            else replace(skip, text=f"{skip.text[:_LONGEST_TEXT]}…")
        )
        if skip.subject != "bundle":
            kept.append(short)
            continue
        unnamed = len(skip.names) - left
        if left == 0:
            counted[skip.code] += len(skip.names)
        else:
            kept.append(
                short
                if unnamed <= 0
                else replace(
                    short, names=skip.names[:left], evidence={**skip.evidence, "unnamed": unnamed}
                )
            )
        left = max(0, -unnamed)
    if counted:
        text = (
            f"{counted.total():,} more bundles are left alone, too many to name them here; the "
            "evidence counts them by reason"
        )
        kept.append(
            Skip(
                "cluster", (cluster,), "more-left-alone", text, None, dict(sorted(counted.items()))
            )
        )
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Proof:
    """Statements of a round's record about the round itself. `advice`: skips that say what helps
    where moving bundles cannot.
    """

    certificate: Certificate | None
    forecast: Forecast | None
    advice: tuple[Skip, ...]


def proof_of(record: Round) -> Proof:
    """Collects the statements of a round's record about itself; a strategy of another version gives
    no advice.
    """
    strategy = SHEDDERS.get(record.strategy.partition("/")[0])
    codes = strategy.advice if strategy else frozenset[str]()
    advice = tuple(skip for skip in record.skips if skip.code in codes)
    return Proof(record.certificate, record.forecast, advice)
