"""Drawing numbers for histories: values that tie, lie on thresholds, are zero, huge or no numbers
at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

_T = TypeVar("_T")

#: Families of values; every history is drawn from one of them.
FAMILIES = ("real", "grid", "ties", "zero", "huge", "tiny", "mixed")
#: Values no sound report holds.
_NASTY = (
    "NaN",
    "Infinity",
    "-Infinity",
    -1,
    -0.0,
    -1e9,
    1e300,
    -1e300,
    1.7976931348623157e308,
    5e-324,
    2**31,
    2**63,
)
_MB = 1_048_576


def share(random: Random, items: Sequence[_T], probability: float) -> list[_T]:
    """Every item with this probability, in a drawn order."""
    found = [item for item in items if random.random() < probability]
    random.shuffle(found)
    return found


def often(random: Random, probability: float) -> bool:
    """True with this probability."""
    return random.random() < probability


@dataclass(frozen=True)
class Numbers:
    """Numbers of one family. `nasty`: about one in seven is no sound number."""

    random: Random
    family: str
    nasty: bool = False

    def traffic(self, scale: float = 10 * _MB) -> Any:
        """A rate or throughput of about `scale`."""
        if self.nasty and often(self.random, 0.14):
            return self.random.choice(_NASTY)
        return self._traffic(self._family(), scale)

    def usage(self) -> dict[str, Any]:
        """Usage and limit of a resource."""
        if self.nasty and often(self.random, 0.14):
            return {
                "usage": self.random.choice(_NASTY),
                "limit": self.random.choice((0, -1, 100, "NaN", "Infinity", 1e300)),
            }
        family, random = self._family(), self.random
        limit = random.choice((100, 400, 800, 1600, 4096, 250.5, 10_000_000))
        if family == "zero" and often(random, 0.5):
            return {"usage": 0, "limit": random.choice((0, 100))}
        if family in ("grid", "ties"):
            step = random.choice((5, 10, 12.5, 25) if family == "grid" else (40, 80))
            return {"usage": round(random.randint(0, int(110 // step)) * step, 6), "limit": 100}
        if family == "huge" and often(random, 0.3):
            return {"usage": limit * random.choice((1.0, 3.5, 40)), "limit": limit}
        if family == "tiny":
            return {"usage": limit * random.random() * 1e-6, "limit": limit}
        return {"usage": limit * random.random() * random.choice((0.5, 1.0, 1.2)), "limit": limit}

    def count(self, most: int) -> int:
        """A small whole number."""
        return self.random.choice((0, 0, 1, 2, most // 2, most, self.random.randint(0, most)))

    def _family(self) -> str:
        return self.random.choice(FAMILIES[:-1]) if self.family == "mixed" else self.family

    def _traffic(self, family: str, scale: float) -> Any:
        random = self.random
        draws: dict[str, Callable[[], Any]] = {
            "real": lambda: random.random() ** 3 * scale * 3,
            "grid": lambda: random.choice((0, 1, 2, 3, 4, 5, 8, 10, 16, 20)) * round(scale / 8),
            "ties": lambda: (
                round(scale) if often(random, 0.7) else random.choice((0, round(scale / 2)))
            ),
            "zero": lambda: 0 if often(random, 0.7) else random.random() * scale,
            "huge": lambda: (
                random.choice((2**31 - 1, 2**31, 2**32, 1e12, 1e15, 4.5e18))
                * random.choice((1, random.random()))
            ),
            "tiny": lambda: (
                random.choice((1e-7, 1e-6, 1e-12, 5e-324, 0.5, 1e-300))
                * random.choice((1, random.random()))
            ),
        }
        return draws[family]()


def sizes(random: Random, most: tuple[int, int, int] = (60, 40, 40)) -> tuple[int, int, int]:
    """Brokers, bundles of a broker, rounds: mostly small, some large, a few as large as `most`."""
    brokers, bundles, rounds = most
    kind = random.random()
    if kind < 0.03:
        return most
    if kind < 0.12:
        return (
            random.randint(1, brokers),
            random.randint(0, bundles),
            random.randint(1, max(1, rounds // 4)),
        )
    if kind < 0.25:
        return random.randint(2, 12), random.randint(1, 8), rounds
    if kind < 0.55:
        return (
            random.choice((9, 10, 11, 12, 13, 14, 23, 24, 25, 48)),
            random.randint(0, 8),
            random.randint(1, 8),
        )
    return random.randint(1, 6), random.randint(0, 9), random.randint(1, 10)


def weights(random: Random) -> dict[str, Any]:
    """Resource weights; the older spelling of the bandwidth keys now and then."""
    keys = (
        "CPU",
        "Memory",
        "DirectMemory",
        "BandwidthIn",
        "BandwidthOut",
        "BandwithIn",
        "BandwithOut",
    )
    return {
        f"loadBalancer{key}ResourceWeight": random.choice(
            (0.0, 0.3, 0.5, 0.8, 1.0, 2.0, round(random.random(), 4))
        )
        for key in keys
        if often(random, 0.15)
    }


def drawn(
    random: Random, choices: Mapping[str, Sequence[Any]], probability: float = 0.6
) -> dict[str, Any]:
    """Values for some of the keys."""
    return {
        key: random.choice(values) for key, values in choices.items() if often(random, probability)
    }
