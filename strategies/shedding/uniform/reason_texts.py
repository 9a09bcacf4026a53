"""The sentences of decisions and skips of UniformLoadShedder, the same in both modes."""

from collections.abc import Mapping
from types import MappingProxyType

from strategies.cluster.model import Decision, Skip
from strategies.shedding.reason_texts import SHOWN, Metric, setting
from strategies.shedding.uniform.settings import UniformSettings
from strategies.shedding.uniform.traffic_gap import Gap

_MINIMUM: Mapping[Metric, str] = MappingProxyType(
    {"msg_rate": "min_msg_rate", "msg_throughput": "min_throughput"}
)
_UNIT: Mapping[Metric, str] = MappingProxyType({"msg_rate": "msg/s", "msg_throughput": "bytes/s"})


def why(gap: Gap) -> str:
    """The comparison as text."""
    shown = SHOWN[gap.metric]
    return f"carries {shown(gap.most)}, {gap.idlest or 'no broker'} {shown(gap.least)}"


def rest(gap: Gap) -> str:
    """Reason why the other bundles stay."""
    return f"it does not fit into what was left of the {SHOWN[gap.metric](gap.need)} to move"


def leaves(gap: Gap, bundle: str, load: float) -> Decision:
    """Decision that the bundle leaves; placement names the destination, which may be another
    broker than the idlest one.
    """
    shown, other = SHOWN[gap.metric], "the idlest" if gap.idlest else "no"
    leaving = (
        f"{shown(load)} of the {shown(gap.need)} to move leave with this bundle for a broker "
        "that placement picks"
    )
    code = "rate-uneven" if gap.metric == "msg_rate" else "throughput-uneven"
    return Decision(
        bundle,
        gap.busiest,
        None,
        code,
        f"{gap.busiest} carries {shown(gap.most)}, {other} broker {shown(gap.least)}: {leaving}",
        {**gap.evidence, "bundle_load": load},
    )


def even(cluster: str, settings: UniformSettings) -> Skip:
    """Skip of a cluster that is even by both measures."""
    rate = setting("shedding.uniform.rate_difference_percent", settings.rate_difference_percent)
    limits = (
        f"{rate} % in message rate and "
        f"{setting('shedding.uniform.throughput_ratio', settings.throughput_ratio)} times in "
        "throughput"
    )
    return Skip(
        "cluster", (cluster,), "even", f"busiest and idlest broker are within the limits, {limits}"
    )


def too_little(gap: Gap, minimum: float) -> Skip:
    """Skip of a broker with so little to shed that it is not worth an interruption."""
    shown = SHOWN[gap.metric]
    least = setting(f"shedding.uniform.{_MINIMUM[gap.metric]}", minimum)
    text = (
        f"it {why(gap)}, but {shown(gap.need)} would have to move, less than {least} "
        f"{_UNIT[gap.metric]}"
    )
    return Skip("broker", (gap.busiest,), "too-little-traffic", text, None, gap.evidence)


def nothing_fits(gap: Gap, settings: UniformSettings) -> Skip:
    """Skip of a broker that is due but has no bundle that is small enough."""
    share = f"({setting('shedding.uniform.max_unload', settings.max_unload)} of the difference)"
    text = (
        f"it {why(gap)}, but none of its bundles that may move fits into the "
        f"{SHOWN[gap.metric](gap.need)} to move {share}"
    )
    return Skip("broker", (gap.busiest,), "nothing-fits", text, None, gap.evidence)


def not_the_busiest(brokers: tuple[str, ...]) -> Skip:
    """Skip of all other brokers, as one broker sheds per round."""
    return Skip(
        "broker",
        brokers,
        "not-the-busiest",
        "one broker gives per round, and another one is the busiest",
    )
