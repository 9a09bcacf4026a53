"""Encodes records of the output topics canonically (fixed key order, shortest numbers, one line):
equal records have equal bytes.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from sinks.wire.contracts.execution import (
    CommandRecord,
    ExpectedUsage,
    OutcomeRecord,
    Reason,
    or_none,
    or_unset,
)
from sinks.wire.contracts.job_output import (
    CertificateRecord,
    ForecastRecord,
    IntentStatusRecord,
    RoundRecord,
    SkipRecord,
    SpreadRecord,
    StateRecord,
)
from sinks.wire.contracts.telemetry import OutcomeReportRecord
from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import Command, Evidence, Expected, Outcome, Round, Scalar, Skip
from strategies.cluster.round_figures import Certificate, Forecast, RoundState, Spread
from strategies.errors import ContractError

_ENCODER = msgspec.json.Encoder()


def encode_command(command: Command) -> bytes:
    """Encodes a record of the COMMANDS topic. Raises ContractError for NaN and infinite figures,
    which JSON cannot hold.
    """
    expected = command.expected
    record = CommandRecord(
        v=1,
        id=command.id,
        cluster=command.cluster,
        round=command.round,
        epoch=command.epoch,
        action=command.action,
        bundle=command.bundle,
        source=command.source,
        destination=command.destination,
        strategy=command.strategy,
        reason=Reason(command.code, command.text, _evidence(command.evidence)),
        expected=ExpectedUsage(
            expected.source_before,
            expected.source_after,
            expected.destination_before,
            expected.destination_after,
        ),
        issued_at_ms=command.issued_at_ms,
        expires_at_ms=command.expires_at_ms,
        boundaries=list(command.boundaries) or UNSET,
        algorithm=or_unset(command.algorithm),
        limits=UNSET if command.limits is None else dict(command.limits),
    )
    _check_finite(astuple(record.expected), "expected usage of a command")
    return _ENCODER.encode(record)


def encode_round(done: Round) -> bytes:
    """Encodes a record of the ROUNDS topic. Raises ContractError for NaN and infinite figures,
    which JSON cannot hold.
    """
    _check_finite(done.usage.values(), "usage of a round")
    _check_finite(done.usage_after.values(), "usage after a round")
    _check_finite(done.measured.values(), "measured usage of a round")
    bounds = done.certificate
    record = RoundRecord(
        v=1,
        cluster=done.cluster,
        round=done.round,
        epoch=done.epoch,
        ts=done.ts,
        closed_by=done.closed_by,
        strategy=done.strategy,
        brokers=list(done.brokers),
        stale=dict(done.stale),
        usage=dict(done.usage),
        usage_after=dict(done.usage_after),
        spread=_spread(done.spread),
        spread_after=_spread(done.spread_after),
        throughput_spread=_spread(done.throughput_spread),
        commands=list(done.commands),
        skips=[
            SkipRecord(s.subject, list(s.names), s.code, s.text, s.broker, _evidence(s.evidence))
            for s in done.skips
        ],
        digest=done.digest,
        version=done.version,
        certificate=UNSET
        if bounds is None
        else CertificateRecord(
            bounds.spread, bounds.best_spread, bounds.gap, bounds.moved, bounds.least_to_move
        ),
        forecast=UNSET if done.forecast is None else ForecastRecord(**asdict(done.forecast)),
        state=UNSET if done.state is None else StateRecord(**asdict(done.state)),
        intents=[
            IntentStatusRecord(
                **{
                    **asdict(status),
                    "phases": dict(status.phases),
                    "bundle": or_unset(status.bundle),
                }
            )
            for status in done.intents
        ]
        or UNSET,
        counted=done.counted or UNSET,
        measured=dict(done.measured) or UNSET,
    )
    return _ENCODER.encode(record)


def encode_outcome(outcome: Outcome) -> bytes:
    """Encodes a record of the OUTCOMES topic."""
    return _ENCODER.encode(_outcome(outcome))


def encode_outcome_telemetry(outcome: Outcome) -> bytes:
    """Encodes an outcome as a record of the TELEMETRY topic, through which it returns to the
    engine.
    """
    return _ENCODER.encode(
        OutcomeReportRecord(v=1, cluster=outcome.cluster, ts=outcome.ts, report=_outcome(outcome))
    )


def to_command(record: CommandRecord) -> Command:
    """The inverse of `encode_command`."""
    expected = record.expected
    return Command(
        id=record.id,
        cluster=record.cluster,
        round=record.round,
        epoch=record.epoch,
        action=record.action,
        bundle=record.bundle,
        source=record.source,
        destination=record.destination,
        strategy=record.strategy,
        code=record.reason.code,
        text=record.reason.text,
        evidence=record.reason.evidence,
        expected=Expected(
            expected.source_before,
            expected.source_after,
            expected.destination_before,
            expected.destination_after,
        ),
        issued_at_ms=record.issued_at_ms,
        expires_at_ms=record.expires_at_ms,
        algorithm=or_none(record.algorithm),
        boundaries=tuple(record.boundaries or ()),
        limits=or_none(record.limits),
    )


def to_round(record: RoundRecord) -> Round:
    """The inverse of `encode_round`."""
    bounds = record.certificate
    return Round(
        cluster=record.cluster,
        round=record.round,
        epoch=record.epoch,
        ts=record.ts,
        closed_by=record.closed_by,
        strategy=record.strategy,
        brokers=tuple(record.brokers),
        stale=record.stale,
        usage=record.usage,
        usage_after=record.usage_after,
        spread=Spread(*astuple(record.spread)),
        spread_after=Spread(*astuple(record.spread_after)),
        throughput_spread=Spread(*astuple(record.throughput_spread)),
        commands=tuple(record.commands),
        skips=tuple(
            Skip(s.subject, tuple(s.names), s.code, s.text, s.broker, s.evidence)
            for s in record.skips
        ),
        digest=record.digest,
        version=record.version,
        certificate=None
        if bounds is UNSET
        else Certificate(bounds.spread, bounds.best_spread, bounds.moved, bounds.least_to_move),
        forecast=None if record.forecast is UNSET else Forecast(*astuple(record.forecast)),
        state=None if record.state is UNSET else RoundState(*astuple(record.state)),
        intents=tuple(
            IntentStatus(**{**msgspec.structs.asdict(one), "bundle": or_none(one.bundle)})
            for one in record.intents or ()
        ),
        counted=record.counted or 0,
        measured=record.measured or {},
    )


def _outcome(outcome: Outcome) -> OutcomeRecord:
    return OutcomeRecord(
        v=1,
        command_id=outcome.command_id,
        cluster=outcome.cluster,
        bundle=outcome.bundle,
        status=outcome.status,
        reason=outcome.reason,
        owner_before=outcome.owner_before,
        owner_after=outcome.owner_after,
        took_ms=outcome.took_ms,
        ts=outcome.ts,
        unowned_ms=or_unset(outcome.cost.unowned_ms),
        first_message_ms=or_unset(outcome.cost.first_message_ms),
        topics=or_unset(outcome.cost.topics),
        unloads=or_unset(outcome.cost.unloads),
        manager=or_unset(outcome.cost.manager),
    )


def _spread(spread: Spread) -> SpreadRecord:
    _check_finite((spread.range, spread.std, spread.max_over_mean), "spread of a round")
    return SpreadRecord(spread.range, spread.std, spread.max_over_mean)


def _evidence(evidence: Evidence) -> dict[str, Scalar]:
    _check_finite(evidence.values(), "evidence")
    return dict(evidence)


def _check_finite(figures: Iterable[Scalar], what: str) -> None:
    """Raises ContractError for NaN and infinity. The encoder would write null for them, which means
    "unknown".
    """
    for figure in figures:
        if isinstance(figure, float) and not math.isfinite(figure):
            raise ContractError(
                f"The {what} holds {figure}, which JSON cannot; please report this as a bug "
                "with the round's telemetry."
            )
