"""The sentences of decisions and skips of OverloadShedder, the same in both modes."""

from collections.abc import Sequence

from strategies.cluster.model import Evidence, Skip
from strategies.shedding.bundles_to_shed import SheddingReason
from strategies.shedding.overload.settings import OverloadSettings
from strategies.shedding.reason_texts import broker_skips, mib, points, setting


def overloaded(usage: float, minimum: float, settings: OverloadSettings) -> SheddingReason:
    """Reason of a broker at or above the threshold."""
    why = f"is at {points(usage)}, and {settings.threshold_percent:g} % counts as overloaded"
    evidence: Evidence = {
        "usage": usage,
        "threshold_percent": settings.threshold_percent,
        "to_shed": minimum,
    }
    return SheddingReason("overloaded", why, minimum, evidence)


def not_overloaded(
    brokers: Sequence[str], usages: Sequence[float], settings: OverloadSettings
) -> list[Skip]:
    """Skips of brokers below the threshold."""
    bar = (
        f"{setting('shedding.overload.threshold_percent', settings.threshold_percent)} %, which "
        "counts as overloaded"
    )
    return broker_skips(
        "not-overloaded",
        brokers,
        lambda index: f"its usage {points(usages[index])} is below {bar}",
        lambda: (
            f"{len(brokers):,} brokers are between {points(min(usages))} and "
            f"{points(max(usages))}, below {bar}"
        ),
        {"threshold_percent": settings.threshold_percent},
    )


def nothing_to_shed(broker: str, usage: float, minimum: float) -> Skip:
    """Skip of an overloaded broker without traffic, which moving bundles would not relieve."""
    text = (
        f"it is overloaded at {points(usage)}, but reports {mib(minimum)} to shed: its load does "
        "not come from its bundles"
    )
    return Skip(
        "broker", (broker,), "too-little-traffic", text, None, {"usage": usage, "to_shed": minimum}
    )
