"""Formats figures in the texts of decisions and skips, and combines the skips of many brokers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from strategies.bundles import Floats
from strategies.cluster.model import MIB, BrokerLoad, Decision, Evidence, Skip
from strategies.states_and_advice_of_codes import (
    CHECK_COLLECTOR,
    NEXT_ROUNDS,
    NOTHING,
    OTHER_LOAD,
    SPLIT_BUNDLES,
    Meaning,
)

#: The reason codes that several strategies give.
MEANINGS = (
    Meaning("waiting-for-hits", "waiting", 600, NEXT_ROUNDS),
    Meaning("waiting-for-moves", "waiting", 620, NEXT_ROUNDS),
    Meaning("settling", "waiting", 720, NEXT_ROUNDS),
    Meaning("sole-bundle", "cannot-help", 860, SPLIT_BUNDLES),
    Meaning("no-bundles", "cannot-help", 880, OTHER_LOAD),
    Meaning(
        "too-little-traffic",
        "cannot-help",
        890,
        "Lower the minimum that the reason names, if such small moves are worth an interruption.",
    ),
    Meaning("does-not-fit", "cannot-help", 1000, SPLIT_BUNDLES),
    Meaning("nothing-fits", "cannot-help", 1220, SPLIT_BUNDLES, asks_bundles=True),
    Meaning("idle", "cannot-help", 1240, OTHER_LOAD),
    Meaning("even", "balanced", 1300, NOTHING),
    Meaning("not-needed", "balanced", 1360, NOTHING),
    Meaning("outdated", "blind", 1410, CHECK_COLLECTOR),
    Meaning("unusable-figures", "blind", 1420, CHECK_COLLECTOR),
)

Metric = Literal["msg_rate", "msg_throughput"]
#: Up to this number of brokers with the same reason, each has its own sentence; in larger clusters
#: they share one.
SPELLED_OUT = 50


def points(fraction: float) -> str:
    """A usage or a difference of usages: `42.1 %`."""
    return f"{100 * fraction:.1f} %"


def mib(bytes_per_s: float) -> str:
    """A throughput: `12.3 MiB/s`."""
    return f"{bytes_per_s / MIB:,.1f} MiB/s"


def msgs(per_s: float) -> str:
    """A message rate: `1,200 msg/s`."""
    return f"{per_s:,.0f} msg/s"


#: Measure of traffic → the format of a figure.
SHOWN: Mapping[Metric, Callable[[float], str]] = MappingProxyType(
    {"msg_rate": msgs, "msg_throughput": mib}
)


def setting(path: str, value: float) -> str:
    """A setting that explains a reason, with its value as in a settings file:
    `shedding.avg.min_msg_rate = 1000`.
    """
    return f"{path} = {value:.15g}"


def broker_skips(
    code: str,
    brokers: Sequence[str],
    sentence: Callable[[int], str],
    together: Callable[[], str],
    evidence: Evidence | None = None,
) -> list[Skip]:
    """One skip per broker, with the text `sentence(i)` for `brokers[i]`; for very many brokers one
    skip with the text `together()`.
    """
    if len(brokers) > SPELLED_OUT:
        return [Skip("broker", tuple(brokers), code, together(), None, evidence or {})]
    return [
        Skip("broker", (broker,), code, sentence(index), None, evidence or {})
        for index, broker in enumerate(brokers)
    ]


def by_reason(
    code: str, reasons: Mapping[str, str], evidence: Evidence | None = None
) -> list[Skip]:
    """One skip for all brokers with the same sentence. `reasons`: broker → sentence."""
    found: dict[str, list[str]] = {}
    for broker, text in sorted(reasons.items()):
        found.setdefault(text, []).append(broker)
    return [
        Skip("broker", tuple(names), code, text, None, evidence or {})
        for text, names in found.items()
    ]


def gathered(skips: Sequence[Skip]) -> tuple[Skip, ...]:
    """The skips; where very many skips of brokers share a code, one skip replaces them, with the
    text of the first one.
    """
    counts = Counter(skip.code for skip in skips if skip.subject == "broker")
    many = {code for code, count in counts.items() if count > SPELLED_OUT}
    kept = [skip for skip in skips if skip.subject != "broker" or skip.code not in many]
    for code in sorted(many):
        alike = [skip for skip in skips if skip.subject == "broker" and skip.code == code]
        names = tuple(dict.fromkeys(name for skip in alike for name in skip.names))
        kept.append(
            Skip(
                "broker",
                names,
                code,
                f"{len(names):,} brokers for the same reason, such as: {alike[0].text}",
            )
        )
    return tuple(kept)


def settling(brokers: Sequence[str]) -> list[Skip]:
    """Skips of brokers that must be neither source nor destination yet."""
    return broker_skips(
        "settling",
        brokers,
        lambda _: "it took part in a move that its newest sample cannot show yet",
        lambda: f"{len(brokers):,} brokers took part in moves that no sample shows yet",
    )


def unusable(brokers: Sequence[str]) -> list[Skip]:
    """Skips of brokers whose usage is not a finite number."""
    return broker_skips(
        "unusable-figures",
        brokers,
        lambda _: "its resource figures give no finite usage",
        lambda: f"the figures of {len(brokers):,} brokers give no finite usage",
    )


def comparable(
    brokers: Sequence[BrokerLoad],
    usages: Floats,
    unusable: Callable[[Sequence[str]], list[Skip]] = unusable,
) -> tuple[npt.NDArray[np.intp], list[Skip]]:
    """The positions of brokers with a finite usage that do not settle, int64[judged], and skips of
    the others. `usages`: float64[n]; `unusable`: skips of brokers without a finite one.
    """
    is_finite = np.isfinite(usages)
    is_settled = np.array([not broker.settling for broker in brokers], dtype=bool)
    lost, waiting = (
        [brokers[position].broker for position in np.flatnonzero(chosen).tolist()]
        for chosen in (~is_finite, is_finite & ~is_settled)
    )
    return np.flatnonzero(is_finite & is_settled), [*unusable(lost), *settling(waiting)]


def too_few_bundles(broker: str, why: str, count: int) -> Skip:
    """Skip of a broker whose only bundle would move the problem to another broker. `why`: it is
    due.
    """
    if count:
        text = f"it {why}, but its only bundle would take the whole load along"
        return Skip("broker", (broker,), "sole-bundle", text)
    return Skip("broker", (broker,), "no-bundles", f"it {why} without serving a bundle")


def revised(
    skips: Sequence[Skip], decisions: Sequence[Decision], newer: Sequence[Skip]
) -> list[Skip]:
    """The skips after a second pass, without old skips of brokers that now take part or have a
    newer reason.
    """
    looked_at = {decision.source for decision in decisions} | {
        name for skip in newer if skip.subject == "broker" for name in skip.names
    }
    kept = []
    for skip in skips:
        names = (
            tuple(name for name in skip.names if name not in looked_at)
            if skip.subject == "broker"
            else skip.names
        )
        if names:
            kept.append(skip if len(names) == len(skip.names) else replace(skip, names=names))
    return [*kept, *newer]
