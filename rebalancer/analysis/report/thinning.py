"""Fewer points for a chart, so that no peak and no dip is lost."""

from __future__ import annotations

import numpy as np

from strategies.bundles.bundle_loads import Floats, Ints


def bin_edges(rows: int, bins: int) -> Ints:
    """int64[k + 1]: row numbers that part `rows` rows into k ≤ `bins` runs of nearly equal length, none of them empty."""
    count = max(1, min(rows, bins))
    return np.asarray(np.linspace(0, rows, count + 1).round(), dtype=np.int64)


def extremes(values: Floats, bins: int) -> Ints:
    """Rows to keep of float64[rows]: in every bin the first, the lowest, the highest and the last; all rows where that saves nothing.

    A row whose figure is missing is kept too where the figures beside it are there, so that gaps stay gaps.
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
    """First row of every bin, and float64[bins, columns]: the highest figure of each column in it, NaN where there is none."""
    edges = bin_edges(len(values), bins)
    return edges[:-1], np.fmax.reduceat(values, edges[:-1], axis=0)


def counts(rows: Ints, total_rows: int, bins: int) -> tuple[Ints, Ints]:
    """First row of every bin, and int64[bins]: how many of `rows` fall into it."""
    edges = bin_edges(total_rows, bins)
    return edges[:-1], np.asarray(np.histogram(rows, edges)[0], dtype=np.int64)
