"""The registry of all placements by name, and the one for bundles that leave draining brokers where
the strategy has none.
"""

from strategies.cluster.memory import Memory
from strategies.java.pulsar_releases import RELEASE_DEFAULTS, RELEASES, PulsarRelease
from strategies.placement.avg import (
    AvgPlacement,
    AvgPlacementSettings,
    ParityAvgPlacement,
    ParityAvgPlacement50,
)
from strategies.placement.contract import (
    Placement,
    PlacementStrategy,
    Placer,
    Request,
    draw,
    fewest_arrivals,
    levels,
    lowest,
    unplaced,
    without_figures,
)
from strategies.placement.least_long_term_rate import (
    LeastLongTermRate,
    LeastLongTermRateSettings,
    ParityLeastLongTermRate,
)
from strategies.placement.least_resource_usage import (
    ExtensibleLeastResourceUsage,
    LeastResourceUsage,
    LeastResourceUsageSettings,
    ParityExtensibleLeastResourceUsage,
    ParityLeastResourceUsage,
)
from strategies.placement.round_robin import ParityRoundRobin, RoundRobin, RoundRobinSettings
from strategies.reason_codes import ADD_BROKERS, CHECK_FILTERS, Meaning
from strategies.registry import Registry
from strategies.settings import MODE_RULES, Mode

_PACKAGE = "org.apache.pulsar.broker.loadbalance"

PLACERS: Registry[PlacementStrategy] = Registry(
    "placement",
    PlacementStrategy(
        "least_long_term_rate",
        f"{_PACKAGE}.impl.LeastLongTermMessageRate",
        "The broker with the lowest long-term message rate that is not overloaded.",
        LeastLongTermRateSettings,
        LeastLongTermRate,
        ParityLeastLongTermRate,
        meanings=(Meaning("all-overloaded", "cannot-help", 940, ADD_BROKERS),),
    ),
    PlacementStrategy(
        "least_resource_usage",
        f"{_PACKAGE}.impl.LeastResourceUsageWithWeight",
        "A broker whose usage, averaged over time, is well below the mean.",
        LeastResourceUsageSettings,
        LeastResourceUsage,
        ParityLeastResourceUsage,
        remembers=True,
    ),
    PlacementStrategy(
        "least_resource_usage_extensible",
        f"{_PACKAGE}.extensions.strategy.LeastResourceUsageWithWeight",
        "The same on the averages that the extensible load manager keeps.",
        LeastResourceUsageSettings,
        ExtensibleLeastResourceUsage,
        ParityExtensibleLeastResourceUsage,
        remembers=True,
    ),
    PlacementStrategy(
        "round_robin",
        f"{_PACKAGE}.impl.RoundRobinBrokerSelector",
        "One broker after the other, whatever their load.",
        RoundRobinSettings,
        lambda _: RoundRobin(),
        lambda _: ParityRoundRobin(),
        remembers=True,
    ),
    PlacementStrategy(
        "avg",
        f"{_PACKAGE}.impl.AvgShedder",
        "The broker that AvgShedder planned when it picked the bundle.",
        AvgPlacementSettings,
        AvgPlacement,
        lambda _: ParityAvgPlacement(),
        sheds=True,
        parity_in={"5.0": ParityAvgPlacement50},
        meanings=(Meaning("only-source", "not-allowed", 510, CHECK_FILTERS),),
    ),
)


class EmptiestBroker:
    """Takes the broker of the lowest usage, moves counted; of equal ones, that with the fewest
    bundles on their way. No placement of Pulsar, and none that a setting names: SteadyShedder finds
    the destinations of its own moves, and a drain needs some too.
    """

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses among all candidates with finite figures."""
        if not request.candidates:
            return unplaced(memory)
        found = levels(request, {})
        if not found:
            return without_figures(memory)
        best = fewest_arrivals(request, lowest(found))
        chosen = draw(best, request.seed)
        text = f"is the emptiest broker that may take it, at {100 * found[chosen]:.1f} %"
        return Placement(
            best, chosen, memory, "emptiest", text, {"destination_usage": found[chosen]}
        )


def pulsars_own(release: PulsarRelease) -> str:
    """The placement that Pulsar runs by default."""
    default = RELEASE_DEFAULTS["loadBalancerLoadPlacementStrategy"].values[release]
    return next(name for name, entry in PLACERS.items() if entry.pulsar_class == default)


def paired(name: str, sheds: str, mode: Mode, release: PulsarRelease) -> str:
    """The placement that places where `name` is configured. From 5.0 on, Pulsar replaces one that
    can shed by its default of 4.2, unless the same class sheds; up to 4.2 it does not start.

    `sheds`: the class that sheds. Fixed mode, and a name that is no placement, stay.
    """
    entry = PLACERS.get(name)
    if entry is None or not entry.sheds or entry.pulsar_class == sheds:
        return name
    return pulsars_own("4.2") if MODE_RULES[mode].pairs and release != "4.2" else name


def placer(
    name: str, settings: object | None, mode: Mode, release: PulsarRelease = RELEASES[0]
) -> Placer:
    """The placement called `name`; `settings` None means its defaults; `release`: whose rule parity
    mode follows. Raises SettingsError for a name or settings that do not fit.
    """
    return PLACERS.named(name).build(PLACERS.settings_of(name, settings), mode, release)
