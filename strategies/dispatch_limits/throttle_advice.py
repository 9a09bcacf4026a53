"""Advises a dispatch limit for a hot bundle that can neither be moved nor split. Executors do not
carry this advice out.

Pulsar has no such rule. The limit applies to every topic of the bundle, as Pulsar's policies set
it. Its size assumes that usage falls in proportion to the broker's traffic.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated

from strategies.bundles import RATE_OUT, THROUGHPUT_OUT, namespace_of
from strategies.cluster.model import MIB, BrokerLoad, ClusterView, Decision, Scalar
from strategies.settings import Setting
from strategies.splitting.bundle_limits import SplitSettings
from strategies.splitting.when_modular import stays_whole

#: The smallest advised limit, as a part of the bundle's current dispatch.
_LEAST = 0.1


@dataclass(frozen=True, slots=True)
class AdviceSettings:
    """When a dispatch limit is advised."""

    advise: Annotated[
        bool,
        Setting(
            "Advise a dispatch limit for a hot bundle that can neither be moved nor split "
            "(fixed mode)"
        ),
    ] = True
    above_percent: Annotated[
        float,
        Setting(
            "Usage above which a broker's bundles get such advice",
            "%",
            "loadBalancerBrokerOverloadedThresholdPercentage",
            ge=1,
            le=100_000,
        ),
    ] = 85.0
    max_partition_mb: Annotated[
        float,
        Setting(
            "Traffic of one partition above which more partitions are advised for the largest "
            "topic of a hot bundle",
            "MB/s",
            ge=0.001,
            le=1_000_000,
        ),
    ] = 20.0
    #: Time until the same bundle may get advice again.
    repeat_ms: int = 3_600_000
    #: Most dispatch limits that one round advises, fullest brokers first.
    per_round: int = 10


@dataclass(frozen=True, slots=True)
class Advice:
    """A decision without destination, and the limits it advises, by Pulsar's names."""

    decision: Decision
    limits: Mapping[str, Scalar]


@dataclass(frozen=True)
class ReliefOptions:
    """Other ways to relieve the broker of a bundle.

    `may_be_relieved(bundle, source)`: whether another broker may take the bundle and would then be
    less full than the source is now. `busy`: brokers that other commands already relieve;
    `spoken_for`: bundles with a command or with recent advice.
    """

    may_be_relieved: Callable[[str, str], bool]
    bundles_in: Callable[[str], int]
    splits: SplitSettings
    busy: Collection[str]
    spoken_for: Collection[str]


def due_advice(
    view: ClusterView, usage: Mapping[str, float], options: ReliefOptions, settings: AdviceSettings
) -> tuple[Advice, ...]:
    """The advice of one round. `usage`: of the view's brokers, as fractions."""
    if len(view.brokers) < 2:
        return ()
    limit = settings.above_percent / 100
    full = [
        broker
        for broker in view.brokers
        if limit < usage[broker.broker]
        and not broker.settling
        and broker.broker not in options.busy
    ]
    found: list[Advice] = []
    resting = {*options.spoken_for, *view.cooling}
    for broker in sorted(full, key=lambda one: (-usage[one.broker], one.broker)):
        if len(found) >= settings.per_round:
            break
        row = _hottest(broker, view)
        # The load of a recently moved or split bundle is not known yet.
        if (
            row is None
            or broker.bundles.names[row] in resting
            or _can_be_helped(broker, row, options)
        ):
            continue
        advice = _advice(broker, row, usage[broker.broker], limit)
        if advice is not None:
            found.append(advice)
            # Two brokers may report a bundle that has just moved.
            resting.add(advice.decision.bundle)
    return tuple(found)


def _hottest(broker: BrokerLoad, view: ClusterView) -> int | None:
    table = broker.bundles
    loads = table.msg_throughput.tolist()
    rows = [
        row
        for row, name in enumerate(table.names)
        if isfinite(loads[row]) and loads[row] > 0 and not view.is_excluded(name)
    ]
    return min(rows, key=lambda row: (-loads[row], table.names[row]), default=None)


def _can_be_helped(broker: BrokerLoad, row: int, options: ReliefOptions) -> bool:
    """Whether the bundle can be split or moved instead; True for system bundles too, which are not
    throttled.
    """
    bundle = broker.bundles.names[row]
    whole = stays_whole(bundle, broker.broker)
    if whole is not None and whole.code == "system-bundle":
        return True
    divisible = whole is None and int(broker.bundles.topics[row]) > 1
    return (
        divisible and options.bundles_in(namespace_of(bundle)) < options.splits.max_bundles
    ) or options.may_be_relieved(bundle, broker.broker)


def _advice(broker: BrokerLoad, row: int, usage: float, limit: float) -> Advice | None:
    table, total = broker.bundles, broker.figures.traffic.msg_throughput
    out, rate = float(table.short[row, THROUGHPUT_OUT]), float(table.short[row, RATE_OUT])
    if not (isfinite(usage) and isfinite(total) and isfinite(rate) and total > 0 and out > 0):
        return None
    reduced = max(out - total * (usage - limit) / usage, out * _LEAST)
    after = usage * (1 - min(1.0, (out - reduced) / total))
    topics = max(1, int(table.topics[row]))
    per_msg, per_byte = max(1, int(rate * (reduced / out) / topics)), max(1, int(reduced / topics))
    share = float(table.msg_throughput[row]) / total
    text = (
        f"{broker.broker} is at {100 * usage:.1f} %, and {100 * share:.0f} % of its traffic "
        "goes through this bundle, "
        f"which can neither be moved nor split: {per_msg:,} msg/s and {per_byte / MIB:.1f} "
        "MiB/s per topic would leave "
        f"{100 * after:.1f} %, if usage follows traffic"
    )
    evidence: dict[str, Scalar] = {
        "usage": usage,
        "usage_after": after,
        "dispatched": out,
        "topics": topics,
    }
    limits: dict[str, Scalar] = {
        "level": "topic",
        "dispatchThrottlingRateInMsg": per_msg,
        "dispatchThrottlingRateInByte": per_byte,
        "ratePeriodInSecond": 1,
        "relativeToPublishRate": False,
    }
    return Advice(
        Decision(table.names[row], broker.broker, None, "hot-bundle", text, evidence), limits
    )
