"""The two measures of UniformLoadShedder in both modes, and the two brokers furthest apart by one.

Source of the rule: `org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder` of Pulsar 4.2.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.bundles import Floats
from strategies.cluster.model import BrokerLoad, Evidence
from strategies.shedding.reason_texts import Metric


@dataclass(frozen=True, slots=True)
class Gap:
    """The two brokers furthest apart by one measure. `need`: amount to move, in the metric's
    unit.
    """

    metric: Metric
    busiest: str
    idlest: str
    most: float
    least: float
    need: float

    @property
    def evidence(self) -> Evidence:
        return {
            "metric": self.metric,
            "most": self.most,
            "least": self.least,
            "idlest": self.idlest,
            "need": self.need,
        }


def totals(metric: Metric, brokers: Sequence[BrokerLoad]) -> Floats:
    """float64[n]: the brokers' traffic, in + out, by this measure. Infinities that cancel out cause
    no warnings.
    """
    traffic = [broker.figures.traffic for broker in brokers]
    if metric == "msg_rate":
        parts = [one.msg_rate_in for one in traffic], [one.msg_rate_out for one in traffic]
    else:
        parts = (
            [one.msg_throughput_in for one in traffic],
            [one.msg_throughput_out for one in traffic],
        )
    with np.errstate(all="ignore"):
        arriving, leaving = np.array(parts, dtype=np.float64)
        total: Floats = arriving + leaving
        return total
