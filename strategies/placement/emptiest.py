"""Places the bundles of draining brokers where the strategy has no placement: on the emptiest
broker.

No placement of Pulsar, and none that a setting names: SteadyShedder finds the destinations of its
own moves, and a drain needs some too.
"""

from __future__ import annotations

from strategies.cluster.memory import Memory
from strategies.placement.contract import Placement, Request, draw, unplaced, without_figures
from strategies.placement.levels import levels, lowest


class EmptiestBroker:
    """Takes the broker of the lowest usage, moves counted; of equal ones, that with the fewest
    bundles on their way.
    """

    def place(self, request: Request, memory: Memory) -> Placement:
        """Chooses among all candidates with finite figures."""
        if not request.candidates:
            return unplaced(memory)
        found = levels(request, {})
        if not found:
            return without_figures(memory)
        arriving = {
            broker: 0 if candidate is None else len(candidate.arriving)
            for broker, candidate in request.candidates.items()
        }
        close = lowest(found)
        fewest = min(arriving[broker] for broker in close)
        best = tuple(broker for broker in close if arriving[broker] == fewest)
        chosen = draw(best, request.seed)
        text = f"is the emptiest broker that may take it, at {100 * found[chosen]:.1f} %"
        return Placement(
            best, chosen, memory, "emptiest", text, {"destination_usage": found[chosen]}
        )
