"""The registry of all placements by name, and the one for bundles that leave draining brokers where
the strategy has none. A new placement is a module beside this file and one line here.
"""

from importlib import import_module

from strategies.cluster.strategy_memory import Memory
from strategies.java.pulsar_versions_and_defaults import (
    MODE_RULES,
    RELEASE_DEFAULTS,
    RELEASES,
    PulsarRelease,
)
from strategies.placement.compared_levels_and_draw import draw, fewest_arrivals, levels, lowest
from strategies.placement.contract import (
    Placement,
    PlacementStrategy,
    Placer,
    Request,
    without_figures,
)
from strategies.registry import Registry
from strategies.settings import Mode

#: The modules of the placements, in the order of lists and tables. Its name is the placement's, and
#: it has the `ENTRY`.
MODULES = (
    "least_long_term_rate",
    "least_resource_usage",
    "least_resource_usage_extensible",
    "round_robin",
    "avg",
)
PLACERS: Registry[PlacementStrategy] = Registry(
    "placement",
    *(import_module(f"strategies.placement.{module}").ENTRY for module in MODULES),
)


class EmptiestBroker:
    """Takes the broker of the lowest usage, moves counted; of equal ones, that with the fewest
    bundles on their way. No placement of Pulsar, and none that a setting names: SteadyShedder finds
    the destinations of its own moves, and a drain needs some too.
    """

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses among all candidates with finite figures."""
        found = levels(request, {})
        if not found:
            return without_figures(request, memory)
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
