"""Makes the record of a round: its digest, and the skips that it names."""

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
from strategies.cluster.rival_state import values_for_digest
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.cluster.round_state import RoundFacts, state_of
from strategies.figures.estimate import spread
from strategies.round.round_input import RoundInput, RoundResult, Rules
from strategies.shedding.registry import SHEDDERS

#: Number of skipped bundles that a round names: a fixed number, and one per broker. It counts the
#: others.
_NAMED, _NAMED_PER_BROKER = 1_000, 20

#: Maximum characters of a sentence; names of brokers and bundles have at most 512.
_LONGEST_TEXT = 2_000


def empty_record(round_input: RoundInput, rules: Rules) -> Round:
    """Returns the record of a round that has not decided anything: no brokers, no commands."""
    nothing = spread([])
    return Round(
        cluster=round_input.cluster,
        round=round_input.number,
        epoch=rules.round.epoch,
        ts=round_input.now_ms,
        closed_by=round_input.closed_by,
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
        digest=_digest(round_input, rules.round.cool_down_ms),
        version=rules.version,
    )


def set_aside_round(round_input: RoundInput, rules: Rules, code: str, text: str) -> RoundResult:
    """Returns the result of a round that is set aside: no command, and the memory as it was, so
    that the next round tries again. `code`, `text`: of the skip that gives the reason.
    """
    skip = Skip("cluster", (round_input.cluster,), code, text)
    brokers = [broker.broker for broker in round_input.brokers]
    record = replace(
        empty_record(round_input, rules),
        skips=(skip,),
        state=state_of(RoundFacts((), brokers, {}, {}, (skip,), rules.meanings)),
        intents=statuses(round_input.state.intents),
    )
    return RoundResult(
        (), record, round_input.memory, {}, intents=round_input.state.intents, is_decided=False
    )


def _digest(round_input: RoundInput, cool_down_ms: int) -> str:
    """Returns the digest of the whole input of the round: rounds with the same digest had the same
    input.
    """
    brokers = [
        (state.broker, state.bundles_digest, state.sampled_round, state.judged_after_ms)
        for state in round_input.brokers
    ]
    flights = {
        bundle: (move.source, move.destination, move.load, move.left)
        for bundle, move in round_input.under_way.items()
    }
    spent = [(entry.ts, entry.bundles, entry.throughput) for entry in round_input.state.spent]
    inputs: list[object] = [
        round_input.now_ms,
        brokers,
        of_all_moves(round_input.state, round_input.now_ms, cool_down_ms),
        flights,
        round_input.state.policies,
        spent,
        dict(round_input.state.advised),
    ]
    intents = replace(round_input.state.intents, early=())
    if intents != NO_INTENTS:  # without intents the digest is that of earlier versions
        inputs.append(
            [asdict(intents), {name: note.bundles for name, note in round_input.owned.items()}]
        )
    if round_input.state.rivals.moves:
        inputs.append(values_for_digest(round_input.state.rivals))
    # Only the pace of drains uses the pauses.
    if round_input.state.intents.drains and round_input.state.pauses:
        inputs.append(round_input.state.pauses)
    seen = json.dumps(inputs, ensure_ascii=False)
    # As bytes, not as text: formatting 18 numbers per broker in decimal would take longer than the
    # decisions.
    figures = np.array(
        [figures_to_list(state.figures) for state in round_input.brokers], dtype="<f8"
    )
    return blake2b(seen.encode() + figures.tobytes(), digest_size=16).hexdigest()


def bounded(skips: Iterable[Skip], cluster: str, brokers: int) -> tuple[Skip, ...]:
    """Returns the skips in their order, with a bounded number of names of bundles. `brokers`:
    number of brokers, on which the bound depends.

    The evidence of a shortened skip has the number of removed names (`unnamed`). One more skip at
    the end counts the bundles of skips that have no name left, by code.
    """
    room = _NAMED + _NAMED_PER_BROKER * brokers
    named_skips, counts = list[Skip](), Counter[str]()
    for skip in skips:
        short = (
            skip
            if len(skip.text) <= _LONGEST_TEXT
            else replace(skip, text=f"{skip.text[:_LONGEST_TEXT]}…")
        )
        if skip.subject != "bundle":
            named_skips.append(short)
            continue
        unnamed = len(skip.names) - room
        if room == 0:
            counts[skip.code] += len(skip.names)
        else:
            named_skips.append(
                short
                if unnamed <= 0
                else replace(
                    short, names=skip.names[:room], evidence={**skip.evidence, "unnamed": unnamed}
                )
            )
        room = max(0, -unnamed)
    if counts:
        text = (
            f"{counts.total():,} more bundles are left alone, too many to name them here; the "
            "evidence counts them by reason"
        )
        named_skips.append(
            Skip("cluster", (cluster,), "more-left-alone", text, None, dict(sorted(counts.items())))
        )
    return tuple(named_skips)


@dataclass(frozen=True, slots=True)
class Proof:
    """Statements of a round's record about the quality of the round's decisions."""

    certificate: Certificate | None
    forecast: Forecast | None
    #: Skips that say what helps where moves of bundles do not.
    advice: tuple[Skip, ...]


def proof_of(record: Round) -> Proof:
    """Collects the statements of a round's record about its decisions. A strategy that this version
    does not know gives no advice.
    """
    strategy = SHEDDERS.get(record.strategy.partition("/")[0])
    codes = strategy.advice if strategy else frozenset[str]()
    advice = tuple(skip for skip in record.skips if skip.code in codes)
    return Proof(record.certificate, record.forecast, advice)
