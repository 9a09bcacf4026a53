"""What the record of a round states about itself."""

from __future__ import annotations

from dataclasses import dataclass

from strategies.cluster.model import Round, Skip
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.shedding.registry import SHEDDERS


@dataclass(frozen=True, slots=True)
class Proof:
    """What the record of a round states about itself. `advice`: skips that say what helps where
    moving bundles cannot.
    """

    certificate: Certificate | None
    forecast: Forecast | None
    advice: tuple[Skip, ...]


def proof_of(record: Round) -> Proof:
    """What the record of a round states about itself; a strategy of another version gives no
    advice.
    """
    strategy = SHEDDERS.get(record.strategy.partition("/")[0])
    codes = strategy.advice if strategy else frozenset[str]()
    advice = tuple(skip for skip in record.skips if skip.code in codes)
    return Proof(record.certificate, record.forecast, advice)
