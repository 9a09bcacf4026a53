"""The settings that a run's decisions depend on, as a report lists them."""

from collections.abc import Mapping

from pulsar_rebalancer.settings.merge_sources import Settings
from strategies.cluster.model import Scalar
from strategies.fold.engine import placement_of
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, RELEASES

#: Tables whose settings decide; of `shedding` and `placement` also the tables of what ran. Others
#: name servers and files, and a report is for anybody.
_DECIDES = (
    "round",
    "weights",
    "shedding",
    "placement",
    "filters",
    "limits",
    "splitting",
    "throttling",
    "drains",
    "rivals",
    "bulkhead",
    "capacities",
)


def shown_settings(settings: Settings) -> Mapping[str, Scalar]:
    """Dotted path → value, those that differ from the defaults first; of strategies and placements,
    only those that ran. The Pulsar release is shown if a source names it, or if it is not the
    oldest one.
    """
    ran = (f"shedding.{settings.engine.strategy}", f"placement.{placement_of(settings.engine)[0]}")
    ordered = sorted(
        (one for one in settings.entries if one.leaf.section in (*_DECIDES, *ran)),
        key=lambda one: one.kind == "default",
    )
    release = settings.engine.pulsar_version
    named = not settings.release_is_open or release != RELEASES[0]
    shown: dict[str, Scalar] = {PULSAR_VERSION: release} if named else {}
    return shown | {
        one.leaf.path: one.value
        if isinstance(one.value, bool | int | float | str)
        else str(one.value)
        for one in ordered
    }
