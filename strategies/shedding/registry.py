"""The registry of all shedding strategies. A new strategy is a folder beside this file and one
line here.
"""

from importlib import import_module

from strategies.registry import Registry
from strategies.shedding.contract import SheddingStrategy

#: The folders of the strategies, in the order of lists and tables. Its name is the strategy's, and
#: its `registry_entry.py` has the `ENTRY`.
FOLDERS = (
    "threshold",
    "avg",
    "overload",
    "uniform",
    "transfer",
    "steady",
)
SHEDDERS: Registry[SheddingStrategy] = Registry(
    "shedding",
    *(import_module(f"strategies.shedding.{folder}.registry_entry").ENTRY for folder in FOLDERS),
)
#: The strategy that runs unless the settings name another.
DEFAULT = "steady"
#: The strategy that the extensible load manager runs instead of a class made for the modular one
#: (UnloadScheduler).
EXTENSIBLE = next(
    strategy for strategy in SHEDDERS.values() if strategy.load_manager == "extensible"
)
