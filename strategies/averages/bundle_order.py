"""Orders bundles by their newest figures, in the coarse steps in which Pulsar compares them.

Source of the rule: `NamespaceBundleStats.compareTo` of Pulsar 4.2.4 (steps are rounded). Figures
become columns of whole numbers, compared from left to right, so that whole tables can be sorted at
once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from strategies.bundles.bundle_loads import (
    RATE_IN,
    RATE_OUT,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    Floats,
    Ints,
)

BYTES_PER_STEP = 100_000.0
MESSAGES_PER_STEP = 100.0
CLIENTS_PER_STEP = 500
CACHE_BYTES_PER_STEP = 100_000

_LONG_MAX = np.iinfo(np.int64).max
_LONG_MIN = np.iinfo(np.int64).min


def newest_order(traffic: Floats, clients: Ints, cache_bytes: Ints) -> Ints:
    """Sort keys int64[n, 5] of float64[n, 4] newest figures, int64[n] topics + consumers +
    producers, and int64[n] cached bytes.
    """
    with np.errstate(all="ignore"):
        columns = (
            _rounded(traffic[:, THROUGHPUT_IN] / BYTES_PER_STEP),
            _rounded(traffic[:, THROUGHPUT_OUT] / BYTES_PER_STEP),
            _rounded((traffic[:, RATE_IN] + traffic[:, RATE_OUT]) / MESSAGES_PER_STEP),
            _steps(clients, CLIENTS_PER_STEP),
            _steps(cache_bytes, CACHE_BYTES_PER_STEP),
        )
    return np.stack(columns, axis=1)


def ranks(keys: Ints) -> Ints:
    """int64[n]: rank of every row of int64[n, k] among the distinct rows, lightest 0; equal rows
    share a rank.
    """
    if not len(keys):
        return np.empty(0, dtype=np.int64)
    order = lightest_first(keys)
    steps = np.any(keys[order[1:]] != keys[order[:-1]], axis=1)
    places = np.empty(len(keys), dtype=np.int64)
    places[order] = np.concatenate(([0], np.cumsum(steps)))
    return places


def lightest_first(keys: Ints, *names: Sequence[str]) -> Ints:
    """int64[n]: rows in ascending order; equal rows by `names` where given, else in their present
    order.
    """
    tie_breakers = tuple(np.array(column) for column in names)
    return np.lexsort((*tie_breakers, *keys.T[::-1])).astype(np.int64)


def _rounded(values: Floats) -> Ints:
    """Java's Math.round: halves round up, exact for all doubles."""
    whole = np.floor(values)
    return truncated(whole + (values - whole >= 0.5))


def truncated(values: Floats) -> Ints:
    """Java's cast of a double to a long: towards zero, NaN is 0, too large values become the
    largest long.
    """
    whole = np.where(np.isnan(values), 0.0, np.trunc(values))
    inside = np.where((whole >= -(2.0**63)) & (whole < 2.0**63), whole, 0.0).astype(np.int64)
    return np.where(whole >= 2.0**63, _LONG_MAX, np.where(whole < -(2.0**63), _LONG_MIN, inside))


def _steps(values: Ints, size: int) -> Ints:
    """Java's integer division, towards zero."""
    return np.where(values < 0, -(-values // size), values // size)
