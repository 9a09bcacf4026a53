"""What one round of one cluster does, in order: screen the brokers, let the strategy pick, estimate the effect, number the commands.

Pure: everything it needs is in `RoundInput`, everything it decided in `RoundResult`. `engine` says when, and keeps the state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

import numpy as np

from strategies.averages import unpack_history
from strategies.estimate import burdened, share_of_traffic, spread
from strategies.model import (
    BrokerLoad,
    BundleLoads,
    ClusterMemory,
    ClusterView,
    Command,
    Decision,
    Expected,
    Figures,
    Memory,
    Round,
    Shedding,
    Skip,
    no_bundles,
)
from strategies.packing import figures_to_list
from strategies.settings import Mode, RoundSettings
from strategies.shedding.contract import Shedder
from strategies.state import Gained, InFlight
from strategies.store import BrokerState

ClosedBy = Literal["sweep", "all-reported", "lateness"]


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings a round is held by."""

    strategy: str
    mode: Mode
    round: RoundSettings
    version: str


@dataclass(frozen=True, slots=True)
class RoundInput:
    """A cluster at the instant a round closes. `brokers` in order of first appearance; `read_table` unpacks nothing by itself."""

    cluster: str
    number: int
    now_ms: int
    closed_by: ClosedBy
    brokers: tuple[BrokerState, ...]
    missing: Mapping[str, str]
    read_table: Callable[[str], bytes | None]
    cooling: Mapping[str, int]
    in_flight: Mapping[str, InFlight]
    gained: Mapping[str, Gained]
    memory: ClusterMemory


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What came of a round: its commands, its record, what to remember, and the load each commanded bundle takes along."""

    commands: tuple[Command, ...]
    round: Round
    memory: Memory
    loads: Mapping[str, float]


def run_round(given: RoundInput, shedder: Shedder, rules: Rules) -> RoundResult:
    """One round. Deterministic; never raises on a legal input."""
    live, stale = screen(given, rules.round)
    view = _view(given, live, rules)
    shedding = _shed(given, view, shedder)
    decisions, skips = _keep(shedding, given)
    estimate = _Estimate(view, shedder)
    commands = tuple(_number(decision, estimate, given, rules) for decision in decisions)
    usage = {broker.broker: shedder.usage(broker) for broker in view.brokers}
    usage_after = usage | estimate.changed_usages()
    record = Round(
        cluster=given.cluster,
        round=given.number,
        epoch=rules.round.epoch,
        ts=given.now_ms,
        closed_by=given.closed_by,
        strategy=f"{rules.strategy}/{rules.mode}",
        brokers=tuple(usage),
        stale=stale,
        usage=usage,
        usage_after=usage_after,
        spread=spread(list(usage.values())),
        spread_after=spread(list(usage_after.values())),
        throughput_spread=spread([broker.figures.traffic.msg_throughput for broker in view.brokers]),
        commands=tuple(command.id for command in commands),
        skips=skips,
        digest=_digest(given),
        version=rules.version,
    )
    return RoundResult(commands, record, shedding.memory, estimate.loads)


def screen(given: RoundInput, settings: RoundSettings) -> tuple[tuple[BrokerState, ...], dict[str, str]]:
    """Brokers whose figures may be trusted now, and those left out with the reason."""
    live, stale = [], {}
    for broker in given.brokers:
        age = given.now_ms - broker.reported_at_ms
        if broker.reported_at_ms < 0:
            stale[broker.broker] = "no load figures yet"
        elif age > settings.stale_after_ms:
            why = given.missing.get(broker.broker)
            stale[broker.broker] = f"newest report is {age / 1000:.0f} s old" + (f" ({why})" if why else "")
        else:
            live.append(broker)
    return tuple(live), stale


def command_id(cluster: str, epoch: int, round_: int, action: str, bundle: str) -> str:
    """32 hex digits that follow from content alone, so that a repeated publication carries the same id."""
    return blake2b("\x1f".join((cluster, str(epoch), str(round_), action, bundle)).encode(), digest_size=16).hexdigest()


def _view(given: RoundInput, live: tuple[BrokerState, ...], rules: Rules) -> ClusterView:
    figures = {state.broker: state.figures for state in live}
    if rules.mode == "fixed":
        figures = _as_if_arrived(figures, given.in_flight)
    brokers = tuple(
        BrokerLoad(
            broker=state.broker,
            figures=figures[state.broker],
            load_bundles=_table_reader(given, state.broker),
            fresh=state.sampled_round == given.number,
            settling=rules.mode == "fixed" and state.sampled_at_ms <= state.judged_after_ms,
            summary=state.table,
            reported_at_ms=state.reported_at_ms,
        )
        for state in live
    )
    return ClusterView(given.cluster, given.now_ms, brokers, frozenset(given.cooling))


def _table_reader(given: RoundInput, broker: str) -> Callable[[], BundleLoads]:
    def read() -> BundleLoads:
        table = given.read_table(broker)
        return no_bundles() if table is None else unpack_history(table).loads()

    return read


def _as_if_arrived(figures: dict[str, Figures], in_flight: Mapping[str, InFlight]) -> dict[str, Figures]:
    """Figures with every commanded move that no report shows yet counted as done: who acts twice on one imbalance over-unloads."""
    result = dict(figures)
    for move in in_flight.values():
        source = figures.get(move.source)
        if source is None:
            continue
        if not move.left:
            result[move.source] = burdened(result[move.source], source, -move.load)
        if move.destination in result:
            result[move.destination] = burdened(result[move.destination], source, move.load)
    return result


def _shed(given: RoundInput, view: ClusterView, shedder: Shedder) -> Shedding:
    memory = Memory({state.broker: state.memory for state in given.brokers}, given.memory)
    memory = shedder.retain(memory, [state.broker for state in given.brokers])
    if len(view.brokers) > 1:
        return shedder.shed(view, memory)
    text = f"{len(view.brokers)} broker with fresh figures: there is nowhere to move a bundle to"
    return Shedding((), (Skip("cluster", (given.cluster,), "too-few-brokers", text),), memory)


def _keep(shedding: Shedding, given: RoundInput) -> tuple[list[Decision], tuple[Skip, ...]]:
    """Decisions that still make sense, and the skips with those added that do not."""
    kept: dict[str, Decision] = {}
    skips = list(shedding.skips)
    for decision in shedding.decisions:
        elsewhere = _also_on(decision, kept, given)
        if elsewhere is None:
            kept[decision.bundle] = decision
        else:
            text = f"{elsewhere} reports this bundle too: it is moving already"
            skips.append(Skip("bundle", (decision.bundle,), "on-two-brokers", text, decision.source))
    return list(kept.values()), tuple(skips)


def _also_on(decision: Decision, kept: Mapping[str, Decision], given: RoundInput) -> str | None:
    """The other broker of a bundle that two brokers report; a round must not order one bundle twice, ids stand for one command."""
    if decision.bundle in kept:
        return kept[decision.bundle].source
    gained = given.gained.get(decision.bundle)
    return None if gained is None or gained.broker == decision.source else gained.broker


class _Estimate:
    """Figures of the cluster as they should be after the decisions seen so far."""

    def __init__(self, view: ClusterView, shedder: Shedder) -> None:
        self._brokers = {broker.broker: broker for broker in view.brokers}
        self._figures = {broker.broker: broker.figures for broker in view.brokers}
        self._shedder = shedder
        self.loads: dict[str, float] = {}

    def usage(self, broker: str) -> float:
        return self._shedder.usage(replace(self._brokers[broker], figures=self._figures[broker]))

    def changed_usages(self) -> dict[str, float]:
        """Of the brokers that decisions touched, in the cluster's order; thousands of others keep theirs."""
        changed = (name for name, broker in self._brokers.items() if self._figures[name] is not broker.figures)
        return {broker: self.usage(broker) for broker in changed}

    def apply(self, decision: Decision) -> Expected:
        share = share_of_traffic(self._brokers[decision.source], decision.bundle)
        self.loads[decision.bundle] = share
        before = self._usages(decision)
        original = self._brokers[decision.source].figures
        self._figures[decision.source] = burdened(self._figures[decision.source], original, -share)
        if decision.destination in self._figures:
            self._figures[decision.destination] = burdened(self._figures[decision.destination], original, share)
        after = self._usages(decision)
        return Expected(before[0], after[0], before[1], after[1])

    def _usages(self, decision: Decision) -> tuple[float, float | None]:
        destination = decision.destination
        return self.usage(decision.source), self.usage(destination) if destination in self._figures else None


def _number(decision: Decision, estimate: _Estimate, given: RoundInput, rules: Rules) -> Command:
    action: Literal["unload", "transfer"] = "unload" if decision.destination is None else "transfer"
    epoch = rules.round.epoch
    return Command(
        id=command_id(given.cluster, epoch, given.number, action, decision.bundle),
        cluster=given.cluster,
        round=given.number,
        epoch=epoch,
        action=action,
        bundle=decision.bundle,
        source=decision.source,
        destination=decision.destination,
        strategy=f"{rules.strategy}/{rules.mode}",
        code=decision.code,
        text=decision.text,
        evidence=decision.evidence,
        expected=estimate.apply(decision),
        issued_at_ms=given.now_ms,
        expires_at_ms=given.now_ms + rules.round.command_ttl_ms,
    )


def _digest(given: RoundInput) -> str:
    """Of everything the round looked at: two rounds with one digest had the same reasons."""
    brokers = [(state.broker, state.bundles_digest, state.sampled_round, state.judged_after_ms) for state in given.brokers]
    flights = {bundle: (move.source, move.destination, move.load, move.left) for bundle, move in given.in_flight.items()}
    seen = json.dumps([given.now_ms, brokers, dict(given.cooling), flights], ensure_ascii=False)
    # As bytes, not as text: writing 18 numbers of every broker in decimal would take longer than deciding.
    figures = np.array([figures_to_list(state.figures) for state in given.brokers], dtype="<f8")
    return blake2b(seen.encode() + figures.tobytes(), digest_size=16).hexdigest()
