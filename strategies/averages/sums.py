"""What the bundles of a broker carry together, by their short and long averages.

Source of the rule: `TimeAverageBrokerData.reset` of Pulsar 4.2.4. A bundle whose averages nobody knows counts with default figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from strategies.bundles.bundle_loads import Floats

#: Messages/s and bytes/s that a bundle is believed to carry before anybody has seen it (columns as in every traffic table).
DEFAULT_TRAFFIC = (50.0, 50.0, 50_000.0, 50_000.0)


def summed_averages(bundles: Sequence[str], averages: Mapping[str, Floats], default: Sequence[float] = DEFAULT_TRAFFIC) -> Floats:
    """float64[8]: short-term, then long-term messages/s and bytes/s of all `bundles` together.

    `averages` maps a bundle to float64[8], short before long. Bundles are added one by one in the given order, which decides the last bits.
    """
    unknown = np.array([*default, *default], dtype=np.float64)
    rows = [np.zeros(8), *(averages.get(bundle, unknown) for bundle in bundles)]
    with np.errstate(all="ignore"):
        running: Floats = np.array(rows).cumsum(axis=0)
    total: Floats = running[-1]
    return total
