"""What must hold of a roll and of every drain, checked round by round from what is published:
records, commands, rounds and outcomes. Each violation is a sentence.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from strategies.bundles import is_system_bundle
from strategies.cluster import model
from strategies.cluster.intent_records_and_states import LASTING, Intent, IntentStatus
from strategies.fold.engine import EngineSettings
from strategies.patterns_and_windows import is_open, read_windows
from strategies.roll.roll_state_and_evidence import IN_WORK

#: Rounds within which a drain makes progress or says what is in its way.
PATIENCE = 20
#: Who interferes; other records are those of the roll's processes.
PERSON = "Ann"
#: Instead of the round of a refusal, after a person has looked at it.
_EXCUSED = 1_000_000
_HOUR_MS = 3_600_000
_CODE = re.compile(r"\[[a-z-]+\]")
_ORDER = ("waiting", "draining", "drained", "restarting", "restarted")


@dataclass(frozen=True, slots=True)
class _Stuck:
    """A drain since its last progress: the bundles left now, and that round; `waited`: rounds since
    then in which it had to wait for another drain.
    """

    left: int
    since: int
    waited: int = 0


@dataclass
class RollPromises:
    """Checks the rounds of one cluster; `broken`: violations, in order."""

    settings: EngineSettings
    broken: list[str] = field(default_factory=list)
    _intents: dict[str, Intent] = field(default_factory=dict)
    _reports: dict[str, model.LoadReport] = field(default_factory=dict)
    _left: dict[str, set[str]] = field(default_factory=dict)
    _open: dict[str, model.Command] = field(default_factory=dict)
    _moved: list[tuple[int, str, float]] = field(default_factory=list)
    _phases: dict[str, str] = field(default_factory=dict)
    _stuck: dict[str, _Stuck] = field(default_factory=dict)
    _round: int = 0
    _new: list[Intent] = field(default_factory=list)
    _refused: dict[str, int] = field(default_factory=dict)

    def told(self, record: model.TelemetryRecord) -> None:
        """Notes a record that reached the job before the next round."""
        match record:
            case Intent():
                if record.id not in self._intents:
                    self._intents[record.id] = record
                    self._new.append(record)
            case model.LoadReport():
                self._reported(record)
            case model.Owned():
                self._listed(record.broker, record.ts, record.bundles, whole=True)
            case model.OutcomeReport():
                self._answered(record.outcome)

    def round(self, done: model.Round, commands: Sequence[model.Command]) -> None:
        """Checks a round."""
        self._round += 1
        drains = {
            one.broker: one
            for one in done.intents
            if one.action == "drain" and one.state in LASTING and one.broker is not None
        }
        roll = next((one for one in done.intents if one.state in ("rolling", "halted")), None)
        found = [
            *self._statuses(done),
            *self._together(drains, roll),
            *self._moves(done, commands, drains, roll),
            *self._limits(done, commands, drains),
            *self._phase_order(roll),
            *self._drained(done, drains, roll),
            *self._progress(drains),
            *self._after_refusals(done),
        ]
        self.broken += [f"round {done.round}: {one}" for one in found]

    def _reported(self, report: model.LoadReport) -> None:
        """A report without figures lists the busiest bundles only."""
        known = self._reports.get(report.broker)
        if report.bundles is None or (known is not None and known.ts > report.ts):
            return
        self._reports[report.broker] = report
        whole = report.figures is not None
        self._listed(report.broker, report.ts, report.bundles.names, whole=whole)

    def _listed(self, broker: str, ts: int, names: Sequence[str], *, whole: bool) -> None:
        if whole:
            self._left[broker] = {name for name in names if not is_system_bundle(name)}
        for bundle, command in list(self._open.items()):
            gone = whole and broker == command.source and bundle not in names
            there = broker != command.source and bundle in names
            if (gone or there) and ts >= command.issued_at_ms:
                del self._open[bundle]

    def _answered(self, outcome: model.Outcome) -> None:
        command = self._open.get(outcome.bundle)
        if command is not None and command.id == outcome.command_id:
            del self._open[outcome.bundle]
        owner = outcome.owner_after or outcome.owner_before
        source = outcome.owner_before if command is None else command.source
        if outcome.status != "dry-run" and source is not None and owner not in (None, source):
            self._left.get(source, set()).discard(outcome.bundle)
        if outcome.status == "dry-run":
            self._moved = [one for one in self._moved if one[1] != outcome.command_id]

    def _after_refusals(self, done: model.Round) -> Iterator[str]:
        """A process whose record was refused does not go on as if it were not."""
        for said in done.intents:
            mine = said.roll is not None and said.by != PERSON
            # A wrong phase is the sign of two processes: one of them goes on.
            if said.state == "refused" and mine and "[wrong-phase]" not in said.text:
                self._refused.setdefault(said.id, done.round)
        for one in self._new:
            if one.action == "resume":
                self._refused = dict.fromkeys(self._refused, _EXCUSED)
            goes_on = one.by != PERSON and one.action not in ("roll", "resume", "halt", "end")
            if goes_on and min(self._refused.values(), default=done.round) < done.round - 1:
                yield f"writes {one.action} {one.broker} after a record was refused"
        self._new = []

    def _statuses(self, done: model.Round) -> Iterator[str]:
        for one in done.intents:
            if not one.text or not one.advice.endswith("."):
                yield f"{one.action} {one.broker} has no sentence or no advice: {one}"
            if one.state == "blocked" and _CODE.search(one.text) is None:
                yield f"{one.broker} is blocked without a code: {one.text}"

    def _together(
        self, drains: dict[str, IntentStatus], roll: IntentStatus | None
    ) -> Iterator[str]:
        alone = [name for name, one in drains.items() if not self._intents[one.id].together]
        if len(alone) > 1:
            yield f"drained at a time without being asked together: {', '.join(alone)}"
        if roll is not None:
            out = [name for name, phase in roll.phases.items() if phase in IN_WORK]
            most = self._intents[roll.id].max_unavailable
            if len(out) > most:
                yield f"the roll drains or restarts {', '.join(out)}, and may {most} at a time"

    def _moves(
        self,
        done: model.Round,
        commands: Sequence[model.Command],
        drains: dict[str, IntentStatus],
        roll: IntentStatus | None,
    ) -> Iterator[str]:
        still = {
            name
            for name, phase in ({} if roll is None else roll.phases).items()
            if name in drains
            and drains[name].roll == (roll and roll.id)
            and (phase == "restarting" or (roll is not None and roll.state == "halted"))
        }
        for one in (command for command in commands if command.is_move):
            if one.destination in drains:
                yield f"{one.bundle} is to go to {one.destination}, which is being drained"
            if (one.code == "drain") != (one.source in drains):
                yield f"{one.bundle} leaves {one.source} with code {one.code}"
            if one.source in still:
                yield f"{one.bundle} is to leave {one.source}, whose bundles stay"
            if is_system_bundle(one.bundle):
                yield f"{one.bundle} is Pulsar's own"
            if one.bundle.rpartition("/")[0] == self.settings.limits.excluded_namespaces:
                yield f"{one.bundle} belongs to an excluded namespace"
            earlier = self._open.get(one.bundle)
            drains_it = one.code == "drain" or self.settings.mode == "fixed"
            if earlier is not None and drains_it and done.ts < earlier.expires_at_ms:
                yield f"{one.bundle} has an open command from {earlier.source} already"
            self._open[one.bundle] = one

    def _limits(
        self, done: model.Round, commands: Sequence[model.Command], drains: Collection[str]
    ) -> Iterator[str]:
        limits, moves = self.settings.limits, [one for one in commands if one.is_move]
        if moves and not is_open(read_windows(limits.windows, "windows"), done.ts):
            yield f"{len(moves)} moves outside {limits.windows}"
        self._moved = [one for one in self._moved if one[0] > done.ts - _HOUR_MS]
        now = [(done.ts, one.id, self._mib(one)) for one in moves]
        self._moved += now
        for count, most, what in (
            (len(now), limits.moves_per_round, "moves in one round"),
            (len(self._moved), limits.moves_per_hour if now else 0, "moves within an hour"),
            (sum(one[2] for one in now), limits.moved_mib_per_round, "MiB/s in one round"),
        ):
            if 0 < most < count - 1e-6:
                yield f"{count:g} {what}; the limit is {most:g}"
        yield from self._pace(done, moves, drains)

    def _pace(
        self, done: model.Round, moves: Sequence[model.Command], drains: Collection[str]
    ) -> Iterator[str]:
        """Bundles of draining brokers on their way, if some were added now."""
        going = [
            one
            for one in self._open.values()
            if one.code == "drain" and one.source in drains and done.ts < one.expires_at_ms
        ]
        pace, weights = self.settings.drains, [self._mib(one) for one in going]
        if not any(one.code == "drain" for one in moves):
            return
        if len(going) > pace.bundles_at_a_time:
            yield f"{len(going)} bundles on their way; the limit is {pace.bundles_at_a_time}"
        if len(going) > 1 and 0 < pace.mib_at_a_time < sum(weights) - 1e-6:
            yield f"{sum(weights):g} MiB/s on their way; the limit is {pace.mib_at_a_time:g}"

    def _mib(self, command: model.Command) -> float:
        """Traffic of the bundle in the newest report of its source."""
        report = self._reports.get(command.source)
        if report is None or report.bundles is None or command.bundle not in report.bundles.names:
            return 0.0
        row = report.bundles.names.index(command.bundle)
        return float(report.bundles.traffic[row, 2:].sum()) / model.MIB

    def _phase_order(self, roll: IntentStatus | None) -> Iterator[str]:
        """A broker that is being restarted only goes on; one that is restarted stays so."""
        for name, phase in ({} if roll is None else roll.phases).items():
            before = self._phases.get(name, "waiting")
            if before in ("restarting", "restarted") and _ORDER.index(phase) < _ORDER.index(before):
                yield f"{name} was {before}, and is {phase}"
            if phase == "restarting" and before not in ("draining", "drained", "restarting"):
                yield f"{name} is {phase} after {before}"
            self._phases[name] = phase

    def _drained(
        self, done: model.Round, drains: dict[str, IntentStatus], roll: IntentStatus | None
    ) -> Iterator[str]:
        """A broker is only called drained if its newest report lists nothing that could move."""
        for name, one in drains.items():
            restarts = roll is not None and roll.phases.get(name) in _ORDER[3:]
            if one.state != "drained" or name not in done.usage or restarts:
                continue
            report, left = self._reports.get(name), self._left.get(name, set())
            if report is not None and report.bundles is not None:
                left = left | {*report.bundles.names}
            moves = [bundle for bundle in sorted(left) if not is_system_bundle(bundle)]
            if moves:
                yield f"{name} is called drained, and its newest report lists {moves[0]}"

    def _progress(self, drains: dict[str, IntentStatus]) -> Iterator[str]:
        """A drain that is neither drained nor blocked loses a bundle within some rounds. Rounds
        in which it waits for another one, which has, do not count.
        """
        stuck: dict[str, _Stuck] = {}
        for one in drains.values():
            left = 1_000_000 if one.left is None else one.left
            found = self._stuck.get(one.id, _Stuck(left, self._round))
            fewer = left < found.left or one.state in ("drained", "blocked")
            stuck[one.id] = _Stuck(left, self._round) if fewer else replace(found, left=left)
        self._stuck = stuck
        for name, one in drains.items():
            mine = stuck[one.id]
            others = [found.since for id_, found in stuck.items() if id_ != one.id]
            recent = max(others, default=0) >= self._round - PATIENCE
            if "[waits-for-drain]" in one.text and recent:
                stuck[one.id] = replace(mine, waited=mine.waited + 1)
            elif self._round - mine.since - mine.waited > PATIENCE:
                yield f"{name} is {one.state} for more than {PATIENCE} rounds: {one.text}"
