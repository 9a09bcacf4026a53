"""Selects the bundles of a broker that may leave, and picks from them, heaviest first: shared by
all shedders of the modular load manager.

Source of the rule: the candidate streams of OverloadShedder, ThresholdShedder, UniformLoadShedder
and AvgShedder of Pulsar 4.2.4.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from strategies.bundles import BundleLoads, Floats, Ints, is_java_system_bundle, is_system_bundle
from strategies.cluster.model import BrokerLoad, ClusterView, Skip
from strategies.java.hash_order import copied_order, double_keys
from strategies.shedding.reason_texts import setting
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, OTHER_LOAD, Meaning

#: The reason codes of this module.
MEANINGS = (
    Meaning("cooling-down", "waiting", 650, NEXT_ROUNDS),
    Meaning("already-leaving", "waiting", 690, NEXT_ROUNDS),
    Meaning(
        "excluded-namespace",
        "not-allowed",
        1100,
        "Remove the namespace from limits.excluded_namespaces, if its bundles may move.",
    ),
    Meaning("system-bundle", "cannot-help", 1250, OTHER_LOAD),
)

#: Takes the loads of the candidates in the order in which they may leave; returns the positions
#: that it picks.
Picker = Callable[[Sequence[float]], list[int]]


class Pick(NamedTuple):
    """A bundle that leaves: its row in the table of its broker, and its load."""

    row: int
    bundle: str
    load: float


#: The bundles that leave a broker, and skips of its others.
Picks = tuple[list[Pick], list[Skip]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Bundles of one broker that may leave (`rows` into its table), and those that must stay, by
    the code of the reason.
    """

    rows: Sequence[int]
    staying: Mapping[str, Sequence[str]]
    cool_down_ms: int


def candidates(loads: BundleLoads, view: ClusterView, taken: Collection[str] = ()) -> Candidates:
    """The common candidate list, in table order. `taken`: bundles already picked from another
    broker in the same round.
    """
    return _sorted_out(loads, view, taken, is_system_bundle, view.is_excluded)


def java_candidates(
    loads: BundleLoads, view: ClusterView, taken: Collection[str] = ()
) -> Candidates:
    """The list as in Java, whose shedders do not know excluded namespaces: the round removes such
    bundles after picking.
    """
    return _sorted_out(loads, view, taken, is_java_system_bundle, lambda _: False)


def _sorted_out(
    loads: BundleLoads,
    view: ClusterView,
    taken: Collection[str],
    is_system: Callable[[str], bool],
    is_excluded: Callable[[str], bool],
) -> Candidates:
    movable, staying = list[int](), defaultdict[str, list[str]](list)
    for row, name in enumerate(loads.names):
        if is_system(name):
            staying["system-bundle"].append(name)
        elif name in view.cooling:
            staying["cooling-down"].append(name)
        elif name in taken:
            staying["already-leaving"].append(name)
        elif is_excluded(name):
            staying["excluded-namespace"].append(name)
        else:
            movable.append(row)
    return Candidates(movable, staying, view.cool_down_ms)


def column(loads: BundleLoads, metric: str) -> Floats:
    """float64[n]: `msg_rate` or `msg_throughput` of a table. NaN and infinities cause no
    warnings.
    """
    with np.errstate(all="ignore"):
        values: Floats = getattr(loads, metric)
        return values


def at_least(minimum: float) -> Picker:
    """A picker that takes loads until their sum reaches `minimum`, and the heaviest one in any
    case.
    """

    def pick(loads: Sequence[float]) -> list[int]:
        marked, taken = 0.0, 0
        for load in loads:
            if taken and not marked < minimum:
                break
            marked += load
            taken += 1
        return list(range(taken))

    return pick


def that_fit(need: float) -> Picker:
    """A picker that takes every load above zero that fits into the rest of `need`."""

    def pick(loads: Sequence[float]) -> list[int]:
        left, taken = need, []
        for position, load in enumerate(loads):
            if 0 < load <= left:
                left -= load
                taken.append(position)
        return taken

    return pick


@dataclass(frozen=True)
class JavaTies:
    """Breaks ties between bundles as in Java: by the iteration order of a new HashMap filled in the
    order of a ConcurrentHashMap.

    That order depends on the name of every bundle of the cluster, so it is computed only when the
    first tie matters.
    """

    view: ClusterView

    @cached_property
    def rank(self) -> dict[str, int]:
        names = self.view.bundle_names
        order, _ = copied_order(
            names,
            left_out=[index for index, name in enumerate(names) if is_java_system_bundle(name)],
        )
        return {names[index]: position for position, index in enumerate(order.tolist())}

    def pick(self, broker: BrokerLoad, metric: str, picker: Picker, why: tuple[str, str]) -> Picks:
        """Picks from the candidates of a broker in Java's order: heaviest first, equality by
        `Double.compare`. `why`: as in `picks`.
        """
        found, loads = java_candidates(broker.bundles, self.view), column(broker.bundles, metric)
        candidates = loads[list(found.rows)]
        keys = double_keys(candidates)
        order = np.argsort(-keys, kind="stable")
        picked = picker(candidates[order].tolist())
        if _tie_matters(keys[order], picked):
            names = broker.bundles.names
            ranks = np.array([self.rank[names[row]] for row in found.rows], dtype=np.int64)
            order = np.lexsort((ranks, -keys))
        return picks(broker, found, loads.tolist(), order[picked].tolist(), why)


def picks(
    broker: BrokerLoad,
    found: Candidates,
    loads: Sequence[float],
    picked: Sequence[int],
    why: tuple[str, str],
) -> Picks:
    """The candidates at the positions `picked`, and skips of the other bundles of the broker.
    `loads`: of all its bundles; `why`: code and text of the candidates that stay.
    """
    names, rows = broker.bundles.names, [found.rows[position] for position in picked]
    gone = frozenset(rows)
    others = [names[row] for row in found.rows if row not in gone]
    return [Pick(row, names[row], loads[row]) for row in rows], [
        *must_stay(broker.broker, found),
        *bundles_left_alone(broker.broker, *why, others),
    ]


def pick_by_name(
    names: Sequence[str],
    loads: Sequence[float],
    picker: Picker,
    ranked: Mapping[str, float] | None = None,
) -> list[int]:
    """Positions of `names` that the picker takes: the lowest rank first, equal ones by name.
    `ranked`: name → rank; without it, the heaviest first.
    """
    ranks = [-load for load in loads] if ranked is None else [ranked[name] for name in names]
    order = sorted(range(len(names)), key=lambda index: (ranks[index], names[index]))
    return [order[position] for position in picker([loads[index] for index in order])]


def ordinary_bundles(broker: BrokerLoad) -> int:
    """Number of bundles of a broker that are not Pulsar's own. The type of bundles without averages
    is unknown; they count as ordinary.
    """
    names = broker.bundles.names
    known = sum(not is_system_bundle(name) for name in names)
    return known + max(0, broker.figures.bundle_count - len(names))


def bundles_left_alone(broker: str, code: str, text: str, names: Sequence[str]) -> list[Skip]:
    """One skip for all these bundles, by name; no skip without bundles."""
    return [Skip("bundle", tuple(sorted(names)), code, text, broker)] if names else []


def idle(broker: str, names: Sequence[str]) -> list[Skip]:
    """Skip of the bundles without traffic."""
    text = "it carries no traffic, so moving it would relieve no broker"
    return bundles_left_alone(broker, "idle", text, names)


def must_stay(broker: str, found: Candidates) -> list[Skip]:
    """Skips of the bundles that are not candidates."""
    texts = {
        "system-bundle": "it belongs to Pulsar itself and means nothing on another broker",
        "cooling-down": "a command moved it a short while ago and its cool-down is not over: "
        f"{setting('round.cool_down_ms', found.cool_down_ms)}",
        "excluded-namespace": "limits.excluded_namespaces names its namespace",
        "already-leaving": "another broker reports it too and sheds it in this round",
    }
    return [
        skip
        for code, text in texts.items()
        for skip in bundles_left_alone(broker, code, text, found.staying.get(code, ()))
    ]


def _tie_matters(keys: Ints, picked: list[int]) -> bool:
    """Whether a picked position has an equal neighbour; `keys` are sorted."""
    equal = np.zeros(len(keys) + 1, dtype=bool)
    equal[1:-1] = keys[1:] == keys[:-1]
    return bool((equal[:-1] | equal[1:])[picked].any()) if picked else False
