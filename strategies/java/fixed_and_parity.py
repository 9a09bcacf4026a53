"""In which respects the modes differ for every strategy: `parity` keeps what Pulsar does, `fixed`
repairs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from strategies.settings import Mode


@dataclass(frozen=True, slots=True)
class ModeRules:
    """What the mode decides about a round, whatever its strategy."""

    #: A commanded move counts as done before a report shows it.
    counts_moves: bool
    #: A broker that was due and sheds nothing is still due in the next round.
    keeps_due: bool
    #: A round may advise dispatch limits.
    advises: bool
    #: Brokers are compared only by resources that all of them measure, and by the operator's
    #: capacities.
    compares_measured: bool
    #: A placement that can shed places only where the same class sheds, as Pulsar pairs them.
    pairs: bool


MODE_RULES: Mapping[Mode, ModeRules] = MappingProxyType(
    {
        "fixed": ModeRules(True, True, True, True, False),
        "parity": ModeRules(False, False, False, False, True),
    }
)
