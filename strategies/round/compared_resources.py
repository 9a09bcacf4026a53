"""Selects the resources by which the brokers of a round are compared: those that all of them
measure.

A limit of 0 or below means that a broker does not measure a resource: Pulsar reports −1000 for each
network card whose speed it cannot read. Pulsar counts such a resource as 0 % used, so the broker
looks empty, and bundles move to it (decision 0147). Modes that repair this compare all brokers by
the other resources, and by limits that the operator sets: network speed and number of cores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from strategies.cluster.model import Figures, Skip
from strategies.cluster.strategy_memory import NO_EPISODE, Memory
from strategies.round.round_input_and_digest import Capacities
from strategies.settings import Weights
from strategies.shedding.reason_texts import by_reason
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, Meaning

#: The reason codes of this module.
MEANINGS = (
    Meaning("others-measured", "waiting", 730, NEXT_ROUNDS),
    Meaning("nothing-measured", "blind", 1440, "Set what the reason names."),
    Meaning(
        "nothing-in-common",
        "blind",
        1450,
        "Set what the skips of the round name, so that one resource is measured everywhere.",
    ),
    Meaning("resource-not-measured"),
)

#: The resources that Pulsar weighs, in the order of `usages_of`.
RESOURCES = ("cpu", "direct_memory", "bandwidth_in", "bandwidth_out")
_NETWORK = frozenset({"bandwidth_in", "bandwidth_out"})


@dataclass(frozen=True, slots=True)
class CommonFigures:
    """The brokers that can be compared. A resource counts if its weight is above 0."""

    #: Broker → its figures of the resources that all of them measure.
    figures: Mapping[str, Figures]
    #: Resources that count and that not all brokers measure.
    left_out: tuple[str, ...] = ()
    #: Broker that measures no resource that counts → the reason.
    blind: Mapping[str, str] = field(default_factory=dict)
    #: Skips that name the missing resources and their brokers.
    skips: tuple[Skip, ...] = ()
    #: Resources that count and that no broker measures.
    nowhere: tuple[str, ...] = ()
    #: True if no resource that counts is measured by all brokers.
    nothing: bool = False


def compare_figures(
    reported: Mapping[str, Figures], weights: Weights, capacities: Capacities, cluster: str
) -> CommonFigures:
    """Finds the resources that all of these brokers measure, and their figures of these.

    `reported`: broker → the figures of its report.
    """
    if capacities:
        reported = {
            name: capacities.apply(name, broker_figures)
            for name, broker_figures in reported.items()
        }
    counting = [name for name in RESOURCES if getattr(weights, name) > 0]
    lacking = {
        resource: {
            name
            for name, broker_figures in reported.items()
            if not getattr(broker_figures, resource).limit > 0
        }
        for resource in counting
    }
    none = set.intersection(*lacking.values()) if lacking else set[str]()
    blind = {
        name: _unmeasured_text(broker_figures, counting)
        for name, broker_figures in reported.items()
        if name in none
    }
    figures = {
        name: broker_figures for name, broker_figures in reported.items() if name not in none
    }
    left_out = tuple(resource for resource in counting if lacking[resource] - none)
    partly = {
        resource: sorted(lacking[resource] - none)
        for resource in left_out
        if len(lacking[resource] - none) < len(figures)
    }
    if partly:
        figures = {
            name: _drop_resources(broker_figures, tuple(partly))
            for name, broker_figures in figures.items()
        }
    nothing = bool(counting) and len(left_out) == len(counting)
    return CommonFigures(
        figures,
        left_out,
        blind,
        (
            *by_reason("nothing-measured", blind, {"set": remedy_of(counting)}),
            *_unmeasured_skips(partly, len(figures)),
            *([_nothing_in_common_skip(cluster)] if nothing else []),
        ),
        tuple(resource for resource in left_out if resource not in partly),
        nothing,
    )


def forget_usages(memory: Memory, left_out: tuple[str, ...]) -> Memory:
    """Removes from the memory everything that depends on the resources by which usage is
    computed.
    """
    brokers = {
        name: replace(
            broker_memory, ewma=None, placement_ewma=None, hit_high=None, hit_low=None, history=None
        )
        for name, broker_memory in memory.brokers.items()
    }
    cluster = replace(
        memory.cluster, hits=0, episode=NO_EPISODE, left_out=left_out, others_measured=False
    )
    return Memory(brokers, cluster)


def adapt_memory(memory: Memory, left_out: tuple[str, ...]) -> tuple[Memory, bool]:
    """Returns the memory with which a round goes on that leaves out these resources, and True if
    the round has to wait. Averages and samples of other resources are forgotten only in the second
    such round in a row, because a figure may be missing once by chance.
    """
    cluster_memory = memory.cluster
    if left_out == cluster_memory.left_out:
        if not cluster_memory.others_measured:
            return memory, False
        return replace(memory, cluster=replace(cluster_memory, others_measured=False)), False
    cleared = forget_usages(memory, left_out)
    if cluster_memory.others_measured or cleared == Memory(
        memory.brokers, replace(cluster_memory, left_out=left_out)
    ):
        return cleared, False
    return replace(memory, cluster=replace(cluster_memory, others_measured=True)), True


def waiting_skip(cluster: str, left_out: Sequence[str]) -> Skip:
    """Returns the skip of a round that waits because other resources are measured than before."""
    by = f"all but {_names(left_out)}" if left_out else "all resources"
    text = (
        f"brokers are now compared by {by}, other than in the rounds before; if the next round is "
        "the same, averages and samples begin again"
    )
    return Skip(
        "cluster", (cluster,), "others-measured", text, None, {"left_out": _names(left_out)}
    )


def remedy_of(resources: Sequence[str]) -> str:
    """Returns the settings that provide a missing resource, as part of a sentence."""
    settings = []
    if {*resources} & _NETWORK:
        settings.append(
            "loadBalancerOverrideBrokerNicSpeedGbps in broker.conf, or capacities.nic_gbps here"
        )
    if "cpu" in resources:
        settings.append("capacities.cores here")
    return "; ".join(settings) or "weights.direct_memory = 0"


def _drop_resources(figures: Figures, names: Sequence[str]) -> Figures:
    """Returns the figures without these resources, and without the broker's own average, which
    includes them.
    """
    unmeasured = {name: replace(getattr(figures, name), limit=0.0) for name in names}
    return replace(figures, usage_average=None, **unmeasured)


def _unmeasured_skips(lacking: Mapping[str, Sequence[str]], brokers: int) -> list[Skip]:
    """Returns one skip for all resources that the same brokers lack. `lacking`: resource → brokers;
    `brokers`: number of all brokers.
    """
    resources_of: dict[tuple[str, ...], list[str]] = {}
    for name, without in lacking.items():
        resources_of.setdefault(tuple(without), []).append(name)
    return [
        Skip(
            "broker",
            names,
            "resource-not-measured",
            f"{_names(resources)} not measured by {len(names)} of {brokers} brokers, so all are "
            f"compared by the rest: set {remedy_of(resources)}",
            None,
            {"resources": _names(resources), "set": remedy_of(resources)},
        )
        for names, resources in resources_of.items()
    ]


def _unmeasured_text(figures: Figures, counting: Sequence[str]) -> str:
    limits = ", ".join(f"{name} (limit {getattr(figures, name).limit:g})" for name in counting)
    return f"it measures none of the resources that count: {limits}: set {remedy_of(counting)}"


def _nothing_in_common_skip(cluster: str) -> Skip:
    text = (
        "the brokers measure different resources, and none of those that count is measured by all "
        "of them, so they cannot be compared"
    )
    return Skip("cluster", (cluster,), "nothing-in-common", text)


def _names(resources: Sequence[str]) -> str:
    return ", ".join(resources)
