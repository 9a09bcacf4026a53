"""The registry of all shedding strategies. A new strategy is a folder beside this file and one
entry here.
"""

from strategies.registry import Registry
from strategies.shedding.avg.strategy import AVG
from strategies.shedding.contract import SheddingStrategy
from strategies.shedding.overload.strategy import OVERLOAD
from strategies.shedding.steady.strategy import STEADY
from strategies.shedding.threshold.strategy import THRESHOLD
from strategies.shedding.transfer.strategy import TRANSFER
from strategies.shedding.uniform.strategy import UNIFORM

SHEDDERS: Registry[SheddingStrategy] = Registry(
    "shedding",
    THRESHOLD,
    AVG,
    OVERLOAD,
    UNIFORM,
    TRANSFER,
    STEADY,
)
#: The strategy that runs unless the settings name another.
DEFAULT = STEADY.name
#: The strategy that the extensible load manager runs instead of a class made for the modular one
#: (UnloadScheduler).
EXTENSIBLE = next(
    strategy for strategy in SHEDDERS.values() if strategy.load_manager == "extensible"
)
