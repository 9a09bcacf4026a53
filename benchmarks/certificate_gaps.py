"""Random small clusters, and how far the bound of the best spread is below the exact one.

`python -m benchmarks.certificate_gaps 500` prints the figures of docs/STRATEGIES.md.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.exact_spread import Exact, Problem, exact_spread
from pulsar_rebalancer.lab.simulation.noise import Stream
from strategies.bundles import Floats
from strategies.shedding.steady.optimum_certificate import best_spread

KINDS = ("fine", "nearly equal", "coarse", "skewed", "giant")
#: Capacities of brokers of mixed clusters, relative to each other.
_POWERS = np.array([1.0, 1.5, 2.0, 3.0])


@dataclass(frozen=True)
class SmallCluster:
    """A problem, and the kind of its bundles."""

    kind: str
    problem: Problem

    @property
    def bound(self) -> float:
        return best_spread(self.problem.sizes, self.problem.fixed, self.problem.capacity)


@dataclass(frozen=True)
class Gap:
    """Points: the bound, and what the exact solver found."""

    kind: str
    bound: float
    exact: Exact

    @property
    def points(self) -> float:
        return self.exact.reached - self.bound


def gap_of(seed: int) -> Gap:
    cluster = small_cluster(seed)
    return Gap(cluster.kind, cluster.bound, exact_spread(cluster.problem))


def small_cluster(seed: int, brokers: tuple[int, int] = (3, 8), most: int = 64) -> SmallCluster:
    """A cluster of some brokers and 16 to 64 bundles (coarse: 1 to 3 a broker), of equal or mixed
    capacity, 25 to 75 points busy with bundles, with fixed load. `most`: bundles at most.
    """
    stream, kind = Stream(seed, 15), KINDS[seed % len(KINDS)]
    count = stream.whole(brokers)
    bundles = stream.whole((count, 3 * count) if kind == "coarse" else (16, 64))
    sizes = _sizes(kind, min(bundles, most), stream)
    mixed = _POWERS[(4 * stream.uniform(count)).astype(np.int64)]
    power = mixed if stream.uniform(1)[0] < 0.5 else np.ones(count)
    capacity = power * sizes.sum() / (power.sum() * stream.between((25.0, 75.0)))
    fixed = 5.0 * stream.uniform(count) if stream.uniform(1)[0] < 0.6 else np.full(count, 8.0)
    if stream.uniform(1)[0] < 0.3:
        fixed[stream.whole((0, count - 1))] += stream.between((10.0, 40.0))
    return SmallCluster(kind, Problem(sizes, fixed, capacity))


def _sizes(kind: str, bundles: int, stream: Stream) -> Floats:
    even = stream.uniform(bundles)
    if kind == "nearly equal":
        return 1.0 + (0.05 if stream.uniform(1)[0] < 0.5 else 0.0) * even
    if kind == "skewed":
        return np.asarray(0.1 + (1.0 - even) ** (-1 / 1.2) - 1.0)
    sizes = 1.0 + 9.0 * even
    if kind == "giant":
        sizes[0] = stream.between((0.2, 0.6)) * sizes.sum()
    return sizes


def lines(gaps: Sequence[Gap]) -> Iterator[str]:
    """The figures of these clusters, per kind and of all."""
    for kind in (*KINDS, "all"):
        found = [one for one in gaps if kind in ("all", one.kind)]
        proven = [one.points for one in found if one.exact.proven]
        if proven:
            middle, high, most = np.percentile(proven, [50, 90, 100])
            yield (
                f"{kind}: {len(proven)} of {len(found)} clusters solved; optimum above the bound: "
                f"median {middle:.4f}, p90 {high:.3f}, most {most:.3f} points; best known spread "
                f"of all: {np.median([one.points for one in found]):.4f}, most "
                f"{max(one.points for one in found):.3f}, least {min(p.points for p in found):.1e}"
            )


if __name__ == "__main__":
    print("\n".join(lines([gap_of(seed) for seed in range(int(sys.argv[1]))])))
