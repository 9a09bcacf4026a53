"""Runs of strategies, as simulations and back-tests write them down."""

from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np

from pulsar_rebalancer.lab.simulation.timeline import Kind, Move, Timeline
from strategies.bundles import Floats

A, B, C = "a:8080", "b:8080", "c:8080"


def a_run(
    usage: Sequence[Sequence[float]] | Floats,
    moves: Sequence[Move] = (),
    *,
    kind: Kind = "simulated",
    title: str = "a run",
) -> Timeline:
    """`usage`: a row per round, a minute apart; a column per broker, fractions, NaN without the
    broker.
    """
    figures = np.asarray(usage, dtype=np.float64)
    rounds, brokers = figures.shape
    unknown = np.full_like(figures, np.nan)
    return Timeline(
        title=title,
        kind=kind,
        cluster="c1",
        strategy="avg/fixed",
        times_ms=60_000 * np.arange(rounds),
        brokers=tuple(f"{name}:8080" for name in ascii_lowercase[:brokers]),
        usage=figures,
        msg_rate=unknown,
        msg_throughput=unknown,
        lasting=figures,
        reached=np.zeros(rounds, dtype=np.bool_),
        moves=tuple(moves),
    )
