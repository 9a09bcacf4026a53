"""SteadyShedder without certificates, which take most of the time of a quiet round and decide
nothing: for runs of many rounds.
"""

from dataclasses import dataclass, replace

from strategies.cluster.model import ClusterView
from strategies.cluster.strategy_memory import Memory
from strategies.settings import Weights
from strategies.shedding.contract import Shedding
from strategies.shedding.registry import SHEDDERS
from strategies.shedding.steady.settings import SteadySettings
from strategies.shedding.steady.steady_round import SteadyShedder


@dataclass(frozen=True)
class Uncertified:
    """SteadyShedder whose rounds have no certificate."""

    settings: SteadySettings
    weights: Weights

    def shed(self, view: ClusterView, memory: Memory) -> Shedding:
        round_ = SteadyShedder(self.settings, self.weights).shed(view, memory)
        return replace(round_, certify=lambda _: None)


#: All shedders, SteadyShedder without certificates.
UNCERTIFIED = SHEDDERS.extended(replace(SHEDDERS["steady"], fixed=Uncertified, parity=Uncertified))
