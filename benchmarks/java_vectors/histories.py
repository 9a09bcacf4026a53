"""All strategies there are histories for, and the histories of a seed as lines of JSON."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from benchmarks.java_vectors import (
    averaging,
    filters,
    placement,
    shedding,
    splits,
    throttling,
    topk,
    transfer,
)

Case = dict[str, Any]
#: Draws one history: `(random, nasty)`.
Draw = Callable[[Random, bool], Case]

HISTORIES: Mapping[tuple[str, str], Draw] = {
    **{("shedding", strategy): partial(shedding.shedding, strategy) for strategy in shedding.CONF},
    ("transfer", "TransferShedder"): transfer.transfer,
    **{
        ("placement", strategy): partial(placement.placement, strategy)
        for strategy in placement.STRATEGIES
    },
    ("placement", "RoundRobinBrokerSelector"): placement.round_robin,
    ("placement", "AvgShedder"): placement.planned,
    **{("averaging", strategy): draw for strategy, draw in averaging.DRAWS.items()},
    ("topk", "TopKBundles"): topk.top_bundles,
    **{("splits", strategy): draw for strategy, draw in splits.DRAWS.items()},
    **{("filters", strategy): draw for strategy, draw in filters.DRAWS.items()},
    **{("throttling", strategy): draw for strategy, draw in throttling.DRAWS.items()},
}


def written(name: tuple[str, str], cases: int, seed: int, *, nasty: bool) -> Iterator[bytes]:
    """So many cases of a strategy, one line each. Each has a seed of its own, so that a case does
    not depend on those before it.
    """
    suite, strategy = name
    for number in range(cases):
        id_ = f"{suite}/{strategy}/{seed}/{number}{'/nasty' if nasty else ''}"
        case = HISTORIES[name](Random(id_), nasty)
        yield (
            json.dumps(
                {"suite": suite, "id": id_, "strategy": strategy, **case}, allow_nan=False
            ).encode()
            + b"\n"
        )
