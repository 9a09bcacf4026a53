"""Random figures that are the same on every machine and do not depend on the order in which they are asked for."""

from __future__ import annotations

import numpy as np

from strategies.bundles.bundle_loads import Floats


def uniform(size: int, *seed: int) -> Floats:
    """float64[size] in [0, 1) that depend on `seed` only.

    Raw PCG64 bits, because numpy keeps those for ever, while the streams of its distributions may change with a version.
    """
    bits = np.random.PCG64(np.random.SeedSequence(seed)).random_raw(size)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def wobble(size: int, amount: float, *seed: int) -> Floats:
    """float64[size] of factors in [1 − amount, 1 + amount)."""
    return 1.0 + amount * (2.0 * uniform(size, *seed) - 1.0)
