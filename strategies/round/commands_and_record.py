"""Makes the commands of a round, and its record with the skips that it names."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from strategies.cluster.model import LARGEST_TIME, Command, Decision, Round, Scalar, Skip
from strategies.cluster.remembered_intents import statuses
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.figures.usage_after_moves import Estimate, spread
from strategies.round.round_input_and_digest import RoundInput, RoundResult, Rules, digest_of
from strategies.round.state_of_round import RoundFacts, state_of
from strategies.shedding.registry import SHEDDERS

#: Number of skipped bundles that a round names: a fixed number, and one per broker. It counts the
#: others.
_NAMED, _NAMED_PER_BROKER = 1_000, 20

#: Maximum characters of a sentence; names of brokers and bundles have at most 512.
_LONGEST_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class DecidedAction:
    """A decision, the action of its command, and the arguments of that action."""

    action: Literal["unload", "transfer", "split", "throttle"]
    decision: Decision
    algorithm: str | None = None
    boundaries: tuple[int, ...] = ()
    limits: Mapping[str, Scalar] | None = None


def number_command(
    order: DecidedAction, estimate: Estimate, round_input: RoundInput, rules: Rules
) -> Command:
    """Returns the command with its id, expiry and expected usage."""
    decision, epoch = order.decision, rules.round.epoch
    moves = order.action in ("unload", "transfer")
    return Command(
        id=command_id(
            round_input.cluster, epoch, round_input.number, order.action, decision.bundle
        ),
        cluster=round_input.cluster,
        round=round_input.number,
        epoch=epoch,
        action=order.action,
        bundle=decision.bundle,
        source=decision.source,
        destination=decision.destination,
        strategy=f"{rules.strategy}/{rules.mode}",
        code=decision.code,
        text=decision.text,
        evidence=decision.evidence,
        expected=estimate.apply(decision) if moves else estimate.stays(decision),
        issued_at_ms=round_input.now_ms,
        expires_at_ms=min(round_input.now_ms + rules.round.command_ttl_ms, LARGEST_TIME),
        algorithm=order.algorithm,
        boundaries=order.boundaries,
        limits=order.limits,
    )


def command_id(cluster: str, epoch: int, round_: int, action: str, bundle: str) -> str:
    """Returns 32 hex digits that depend on the content only, so that every publication of a command
    has the same id.
    """
    return blake2b(
        "\x1f".join((cluster, str(epoch), str(round_), action, bundle)).encode(), digest_size=16
    ).hexdigest()


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
        digest=digest_of(round_input, rules.round.cool_down_ms),
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
