"""The sentences of decisions and skips of ThresholdShedder, the same in both modes."""

from collections.abc import Sequence

from strategies.cluster.model import Evidence, Skip
from strategies.shedding.bundles_to_shed import SheddingReason
from strategies.shedding.reason_texts import broker_skips, mib, points, setting
from strategies.shedding.threshold.settings import ThresholdSettings


def above_average(
    ewma: float, mean: float, minimum: float, settings: ThresholdSettings
) -> SheddingReason:
    """Reason of a broker at or above the threshold."""
    why = (
        f"averages {points(ewma)}, the cluster {points(mean)}, and {settings.threshold_percent:g} "
        "points above that is the limit"
    )
    return SheddingReason("above-average", why, minimum, _evidence(ewma, mean, minimum, settings))


def lower_boundary(
    ewma: float, mean: float, minimum: float, settings: ThresholdSettings
) -> SheddingReason:
    """Reason of the fullest broker while another one is far below the mean."""
    below = (
        f"a broker is more than {settings.threshold_percent:g} points below the mean {points(mean)}"
    )
    why = f"is the fullest with an average of {points(ewma)} while {below}"
    return SheddingReason("lower-boundary", why, minimum, _evidence(ewma, mean, minimum, settings))


def below_threshold(
    brokers: Sequence[str], ewmas: Sequence[float], mean: float, settings: ThresholdSettings
) -> list[Skip]:
    """Skips of brokers below the threshold."""
    bar = f"the cluster's mean {points(mean)} + {_percent(settings)} points"
    evidence: Evidence = {"mean": mean, "threshold_percent": settings.threshold_percent}
    return broker_skips(
        "below-threshold",
        brokers,
        lambda index: f"its average {points(ewmas[index])} is below {bar}",
        lambda: (
            f"{len(brokers):,} brokers average between {points(min(ewmas))} and "
            f"{points(max(ewmas))}, below {bar}"
        ),
        evidence,
    )


def too_little_traffic(broker: str, minimum: float, settings: ThresholdSettings) -> Skip:
    """Skip of a broker with so little to shed that it is not worth an interruption."""
    text = (
        f"{mib(minimum)} would have to go, less than "
        f"{setting('shedding.threshold.min_throughput_mib', settings.min_throughput_mib)} MiB/s"
    )
    return Skip("broker", (broker,), "too-little-traffic", text, None, {"to_shed": minimum})


def no_load(cluster: str) -> Skip:
    """Skip of a cluster without load."""
    return Skip("cluster", (cluster,), "no-load", "the brokers' mean usage is 0 %")


def none_below(cluster: str, mean: float, settings: ThresholdSettings) -> Skip:
    """Skip of the lower boundary: no broker is below it."""
    text = (
        f"no broker averages more than {_percent(settings)} points below the mean {points(mean)} "
        "while another could give"
    )
    return Skip("cluster", (cluster,), "nobody-below", text, None, {"mean": mean})


def already_fell(
    broker: str, ewma: float, usage: float, mean_usage: float, settings: ThresholdSettings
) -> Skip:
    """Skip of a broker whose average is over the limit but whose newest usage is not."""
    text = (
        f"its average {points(ewma)} is over the limit, but its newest usage {points(usage)} "
        "is not "
        f"{_percent(settings)} points above the newest mean {points(mean_usage)}: the excess "
        "has already left"
    )
    return Skip(
        "broker",
        (broker,),
        "already-fell",
        text,
        None,
        {"ewma": ewma, "usage": usage, "mean_usage": mean_usage},
    )


def waiting_for_moves(cluster: str) -> Skip:
    """Skip of the lower boundary, which is checked only when no move is under way."""
    text = (
        "the lower boundary waits until a sample of every broker shows the moves that are under way"
    )
    return Skip("cluster", (cluster,), "waiting-for-moves", text)


def _percent(settings: ThresholdSettings) -> str:
    return setting("shedding.threshold.threshold_percent", settings.threshold_percent)


def _evidence(ewma: float, mean: float, minimum: float, settings: ThresholdSettings) -> Evidence:
    return {
        "ewma": ewma,
        "mean": mean,
        "threshold_percent": settings.threshold_percent,
        "to_shed": minimum,
    }
