"""Reduces the points of a chart without losing peaks or dips."""

import numpy as np

from strategies.bundles import Floats, Ints


def bin_edges(rows: int, bins: int) -> Ints:
    """int64[k + 1]: row numbers that divide `rows` rows into k ≤ `bins` non-empty bins of nearly
    equal length.
    """
    return np.asarray(np.linspace(0, rows, max(1, min(rows, bins)) + 1).round(), dtype=np.int64)


def extremes(values: Floats, bins: int) -> Ints:
    """Rows of float64[rows] to keep: the first, lowest, highest and last of each bin; all rows if
    that saves nothing.

    A row without a figure is kept if its neighbours have one, so that gaps remain visible.
    """
    rows = len(values)
    if rows <= 4 * bins:
        return np.arange(rows, dtype=np.int64)
    edges = bin_edges(rows, bins)
    kept = {0, rows - 1}
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = values[begin:end]
        kept |= {begin, end - 1}
        missing = np.isnan(part)
        if not missing.all():
            kept |= {begin + int(np.nanargmin(part)), begin + int(np.nanargmax(part))}
        if missing.any():
            kept.add(begin + int(missing.argmax()))
    return np.array(sorted(kept), dtype=np.int64)


def peaks(values: Floats, bins: int) -> tuple[Ints, Floats]:
    """First row of each bin, and float64[bins, columns]: the highest figure per bin and column, NaN
    if there is none.
    """
    edges = bin_edges(len(values), bins)
    return edges[:-1], np.fmax.reduceat(values, edges[:-1], axis=0)


def counts(rows: Ints, total_rows: int, bins: int) -> tuple[Ints, Ints]:
    """First row of each bin, and int64[bins]: number of `rows` in it."""
    edges = bin_edges(total_rows, bins)
    return edges[:-1], np.asarray(np.histogram(rows, edges)[0], dtype=np.int64)
