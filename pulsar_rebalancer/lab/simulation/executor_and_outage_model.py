"""Changes of a modelled cluster: an executor applies commands, brokers join and leave, and the
leader places their bundles.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pulsar_rebalancer.lab.simulation.broker_measurements import NO_BROKER, World
from pulsar_rebalancer.lab.simulation.leader import Placing
from pulsar_rebalancer.lab.simulation.timeline import Move
from strategies.bundles import namespace_of, parse_bundle
from strategies.cluster.model import Command, Outcome, OutcomeStatus
from strategies.executor import admission
from strategies.filters.policies import PoliciesView

#: Time from the close of a round to the start of its first command.
REACTION_S = 1.0
#: Time until the cluster notices that a broker died (its session in the metadata store expires).
DEAD_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class CommandDone:
    """The outcome of a command, and its effect on clients."""

    outcome: Outcome
    topics: int = 0
    blip_s: float = 0.0


class ExecutorModel:
    """Changes the owners of bundles. Independent of rounds. Refuses the commands that
    `strategies.executor.admission` refuses.

    `returns`: a bundle that is unloaded without a destination may return to its source. `policies`:
    of the cluster.
    """

    def __init__(
        self,
        world: World,
        leader: Placing,
        start_ms: int,
        returns: bool = False,
        policies: PoliciesView = PoliciesView(),
    ) -> None:
        self._world, self._leader, self._start_ms = world, leader, start_ms
        self._returns, self._policies = returns, policies
        self._numbers = {name: number for number, name in enumerate(world.fleet.names)}

    def carry_out(self, commands: Sequence[Command], now_s: float) -> list[CommandDone]:
        """Applies commands in sequence."""
        clock, done = now_s + REACTION_S, []
        for number, command in enumerate(commands):
            one, clock = self._one(command, clock, number)
            done.append(one)
        return done

    def leave(self, brokers: Sequence[str], at_s: float, killed: bool, round_: int) -> list[Move]:
        """Removes brokers at the same time; clients look up their bundles, and the leader places
        these in sequence.
        """
        world = self._world
        gone = [self._numbers[name] for name in brokers]
        world.present[gone] = False
        staying = self.present()
        rows = [
            (row, world.fleet.names[broker])
            for broker in gone
            for row in world.rows_of(broker).tolist()
        ]
        rows.sort(key=lambda pair: world.names[pair[0]])
        chosen = self._leader.places(
            [(world.names[row], source) for row, source in rows], staying, self._served()
        )
        wait = DEAD_AFTER_S if killed else 0.0
        return [
            self._placed(row, source, where, (at_s, wait), round_)
            for (row, source), where in zip(rows, chosen, strict=True)
        ]

    def join(self, brokers: Sequence[str]) -> None:
        """Adds brokers without bundles."""
        self._world.present[[self._numbers[name] for name in brokers]] = True

    def traffic_of(self, bundle: str) -> float:
        """Bytes/s in + out of a bundle; NaN if it does not exist."""
        row = self._row(bundle)
        return float("nan") if row < 0 else self._size(row)[0]

    def _placed(
        self,
        row: int,
        source: str,
        destination: str | None,
        times_s: tuple[float, float],
        round_: int,
    ) -> Move:
        at_s, wait_s = times_s
        blip = wait_s + self._world.chance.reconnect_s()
        where = NO_BROKER if destination is None else self._numbers[destination]
        traffic, topics = self._size(row)
        self._world.move(row, where, at_s, at_s + blip)
        return Move(
            round=round_,
            ts=self._start_ms + int(at_s * 1000),
            bundle=self._world.names[row],
            source=source,
            destination=destination,
            kind="placed",
            code="broker-left",
            reason=f"{source} left; the leader placed the bundle when its clients looked it up",
            traffic=traffic,
            topics=topics,
            blip_ms=int(blip * 1000),
        )

    def _one(self, command: Command, clock: float, number: int) -> tuple[CommandDone, float]:
        row = self._row(command.bundle)
        owner = self._owner(row)
        objection = self._objection(command, row, owner, clock)
        if objection is not None:
            return self._failed(command, objection.status, str(objection), owner, clock), clock
        if command.action == "split":
            return self._split(command, row, clock, number)
        destination = command.destination
        if destination is None:
            others = [name for name in self.present() if self._returns or name != command.source]
            destination = self._leader.places(
                [(command.bundle, command.source)], others, self._served(row)
            )[0]
        if destination is None:
            return self._failed(
                command, "failed", "no broker can take the bundle", owner, clock
            ), clock
        took = self._world.chance.took_s(number)
        blip = took + self._world.chance.reconnect_s()
        topics = self._size(row)[1]
        self._world.move(row, self._numbers[destination], clock, clock + blip)
        outcome = self._outcome(command, clock + took, owners=(owner, destination), took_s=took)
        return CommandDone(outcome, topics, blip), clock + took

    def _split(
        self, command: Command, row: int, clock: float, number: int
    ) -> tuple[CommandDone, float]:
        parsed = parse_bundle(command.bundle)
        took = self._world.chance.took_s(number)
        owner = command.source
        if parsed is None or not parsed[1].can_split:
            return self._failed(
                command, "failed", "the bundle cannot be split", owner, clock
            ), clock
        range_ = parsed[1]
        self._world.split(row, (range_.lower + range_.upper) // 2)
        return CommandDone(
            self._outcome(command, clock + took, owners=(owner, owner), took_s=took)
        ), clock + took

    def _objection(
        self, command: Command, row: int, owner: str | None, clock: float
    ) -> admission.Objection | None:
        return admission.may_be_considered(
            command, admission.CommandFacts(self._ms(clock)), admission.AdmissionRules()
        ) or admission.may_be_applied(
            command, admission.ClusterFacts(self.present(), owner, self._policies, exists=row >= 0)
        )

    def present(self) -> list[str]:
        """The brokers of the cluster now."""
        return [name for name, number in self._numbers.items() if self._world.present[number]]

    def _ms(self, at_s: float) -> int:
        """Virtual time in whole ms, without the rounding errors of added seconds."""
        return self._start_ms + int(at_s * 1000 + 1e-6)

    def _served(self, wanted: int | None = None) -> dict[str, Counter[str]]:
        """Broker → namespace → number of bundles, without the `wanted` one; empty counters unless
        the placement needs them.
        """
        found: dict[str, Counter[str]] = {name: Counter() for name in self._numbers}
        if self._leader.counts_namespaces:
            for row, owner in enumerate(self._world.ownership.owner.tolist()):
                if row != wanted and owner != NO_BROKER:
                    found[self._world.fleet.names[owner]][namespace_of(self._world.names[row])] += 1
        return found

    def _row(self, bundle: str) -> int:
        try:
            return self._world.names.index(bundle)
        except ValueError:
            return -1

    def _owner(self, row: int) -> str | None:
        if row < 0 or self._world.ownership.owner[row] == NO_BROKER:
            return None
        return self._world.fleet.names[int(self._world.ownership.owner[row])]

    def _size(self, row: int) -> tuple[float, int]:
        """Bytes/s in + out of a bundle, and its number of topics."""
        return float(self._world.sampled[2, row] + self._world.sampled[3, row]), int(
            self._world.demand.topics[row]
        )

    def _failed(
        self, command: Command, status: OutcomeStatus, reason: str, owner: str | None, at_s: float
    ) -> CommandDone:
        return CommandDone(
            self._outcome(command, at_s, status=status, reason=reason, owners=(owner, owner))
        )

    def _outcome(
        self,
        command: Command,
        at_s: float,
        *,
        owners: tuple[str | None, str | None],
        took_s: float = 0.0,
        status: OutcomeStatus = "applied",
        reason: str | None = None,
    ) -> Outcome:
        return Outcome(
            command.id,
            command.cluster,
            command.bundle,
            status,
            reason,
            *owners,
            int(took_s * 1000 + 1e-6),
            self._ms(at_s),
        )
