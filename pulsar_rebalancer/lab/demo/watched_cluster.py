"""The cluster of `watch --demo`: modelled brokers whose clock begins a while ago, runs at full
speed until it is now, and then keeps pace. An executor of the model applies the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pulsar_rebalancer.lab.demo.deciders import DemoTopics
from pulsar_rebalancer.lab.demo.plan import BUNDLES
from pulsar_rebalancer.lab.simulation.clock import PERIOD_MS
from pulsar_rebalancer.lab.simulation.closed_loop import PolledCluster, outcome_reports
from pulsar_rebalancer.lab.simulation.clusters.skewed import skewed_cluster
from sinks.topics.uri import TopicUri
from strategies.cluster.model import Command

CLUSTER = "demo"
#: Passes before the present.
_HISTORY = 20


@dataclass(slots=True)
class ModelledCluster:
    """One pass per statistics period; the next one begins when the job has answered the last."""

    cluster: PolledCluster
    topics: DemoTopics
    clock_ms: Callable[[], int]
    due_ms: int
    #: Time of the round that the job has not answered yet.
    waits_for: int | None = None

    def step(self) -> list[Command]:
        """Does what is due, and returns the commands that were applied."""
        if self.waits_for is not None:
            return self._applied(self.waits_for)
        if self.clock_ms() >= self.due_ms:
            records = self.cluster.collect()
            self.topics.publish(records)
            self.waits_for, self.due_ms = records[-1].ts, self.due_ms + PERIOD_MS
        return []

    def close(self) -> None:
        """Closes the topics."""
        self.topics.close()

    def _applied(self, ts: int) -> list[Command]:
        answer = self.topics.answer(ts)
        if answer is None:
            return []
        self.waits_for = None
        outcomes = self.cluster.carry_out(answer.commands, ts)
        self.topics.publish(outcome_reports(outcomes))
        return list(answer.commands)


def modelled_cluster(
    topics: Mapping[str, TopicUri], seed: int, clock_ms: Callable[[], int]
) -> ModelledCluster:
    """The demo's cluster, with records on these topics."""
    start_ms = clock_ms() - _HISTORY * PERIOD_MS
    cluster = PolledCluster(skewed_cluster(CLUSTER, seed, BUNDLES).world, CLUSTER, start_ms)
    return ModelledCluster(cluster, DemoTopics(topics, cluster), clock_ms, start_ms)
