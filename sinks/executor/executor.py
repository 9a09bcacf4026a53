"""The executor: intake → (hold →) judge → apply → publish. Each record passes once, and what one
part makes is the input of the next.

For each record exactly one outcome, published before the record's position is committed. What must
survive a death in between is in the journal: see there for the three states of a command. With
`approval_required`, a command without an objection is held first: it stays in the journal until a
person has decided on its plan.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from sinks.executor.apply_or_recover import Applier
from sinks.executor.held_commands_and_approval_journal import (
    ApprovalIntake,
    ApprovalJournal,
    RefusedRecord,
    next_held,
)
from sinks.executor.journal import Journal, MoveJournal
from sinks.executor.judge_command import Facts, Judgement, judge
from sinks.executor.move_gate_and_holds import MoveGuard, RateLimiter
from sinks.executor.outcome_status_and_reason import (
    Allowance,
    Effect,
    effect_of_failed_read,
    refusal,
)
from sinks.executor.pause_meter import BundleUse, CostMeter
from sinks.executor.settings import ExecutorConfig
from sinks.executor.task_intake import (
    Done,
    ExecutorTopics,
    HeldBack,
    Intake,
    Result,
    ResultPublisher,
    Task,
)
from sinks.graceful_stop import wall_clock_ms
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.wire.record_decoding import decode_outcome
from sinks.wire.record_encoding import encode_outcome
from strategies.cluster.model import Outcome
from strategies.cluster.move_cost import MoveCost
from strategies.errors import CallFailed, RebalancerError, SinkError
from strategies.executor.admission import owner_objection
from strategies.executor.gate_and_breaker import result_of
from strategies.executor.objections_to_approvals import NOT_THE_APPROVED_PLAN

#: Characters of an outcome's reason, which may quote what brokers and policies say.
_LONGEST_REASON = 2_000
#: How often rounds are read while commands wait for their turn.
_LEARN_EVERY_S = 0.5


class Stopped(RebalancerError):
    """The executor ends before this command was begun; the next start receives it again."""


class Executor:
    """One cluster, one journal, one thread that calls `recover` and then `step` again and again.
    `guard`: any thread may ask for its state.
    """

    def __init__(
        self,
        config: ExecutorConfig,
        topics: ExecutorTopics,
        *,
        journal: Journal,
        admin: PulsarAdmin,
        applier: Applier,
        limiter: RateLimiter,
        frozen: Callable[[Sequence[str]], str] = lambda _: "",
        quick: PulsarAdmin | None = None,
        meter: CostMeter | None = None,
        on_result: Callable[[Result], None] = lambda _: None,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`frozen`: a sentence about those of the live brokers that are frozen, empty when none is.
        `quick`: one attempt and the gate's deadline, for the calls of the guard; None = `admin`.
        `meter`: measures what moves cost; None = nothing is measured.
        `on_result` is called with what came of each record, after it was published. `clock_ms`: ms
        since the epoch.
        """
        self._config = config
        self._commands = topics.commands
        self._journal = journal
        self._applier = applier
        self._limiter = limiter
        self._clock_ms = clock_ms
        self._held = ApprovalJournal(journal)
        self._intake = Intake(
            config, topics, journal=journal, approvals=self._held, clock_ms=clock_ms
        )
        self._approvals = ApprovalIntake(
            config, topics.approvals, journal=self._held, clock_ms=clock_ms
        )
        self._moves = MoveJournal(journal)
        quick = quick or admin
        self.guard = MoveGuard(config.guard, self._moves, quick, clock_ms)
        self._meter = meter or CostMeter(quick, 0, lambda _: True)
        self._facts = Facts(config, journal, self._held, admin, self.guard, frozen, clock_ms)
        self._publisher = ResultPublisher(topics, journal, self._held, on_result)
        #: Number of commands that wait for an approval, after the last step.
        self.held = 0
        self._paused = False
        #: Ids of the commands that are being applied; any thread may ask how many.
        self.applying: set[str] = set()

    @property
    def is_paused(self) -> bool:
        """True if the pause file or, since the last step, a record pauses it; any thread may
        ask.
        """
        return self._paused or self._facts.paused_by_file()

    def recover(self) -> None:
        """Finishes what the last process left: looks after open commands, publishes decided ones.
        Raises SinkError, Unauthorized.
        """
        for task in self._intake.unfinished():
            self._publisher.publish(self._result(task))
        self._intake.forget_at_start()

    def step(self, timeout_s: float = 0.5) -> int:
        """Works off the next few records and held commands; how many. Raises SinkError,
        Unauthorized, Stopped; then what was not finished comes again.
        """
        self._learn()
        released = self._release()
        wave = self._intake.next_wave(0 if released else timeout_s)
        for arrival, result in zip(
            wave, self._results([arrival.content for arrival in wave]), strict=True
        ):
            self._publisher.publish(result.result())
            self._commands.commit(arrival.record)
        if wave or released:
            self._intake.forget()
        elif self._config.apply:
            self.guard.gate.keep_up()
        self.held = self._held.held_count()
        return len(wave) + released

    def _learn(self) -> None:
        """Reads newer epochs and what people decided, and publishes the answers."""
        self._intake.learn_epochs()
        self._approvals.learn(self._publisher.publish)
        for answer in self._approvals.unpublished():
            self._publisher.publish(answer)
        self._paused = bool(self._facts.paused_by_record())

    def _release(self) -> int:
        """Works off the next held commands that are decided or late; how many."""
        wave = next_held(self._config, self._journal, self._held, self._clock_ms())
        tasks = [self._intake.of_held(due) for due in wave]
        for result in self._results(tasks):
            self._publisher.publish(result.result())
        return len(wave)

    def _results(self, wave: Sequence[Task | RefusedRecord | None]) -> list[Future[Result | None]]:
        """All of a wave, worked on side by side."""
        if not wave:
            return []
        self._meter.begin_wave()
        with ThreadPoolExecutor(self._config.at_once, thread_name_prefix="apply") as pool:
            results = [pool.submit(self._result, content) for content in wave]
            while wait(results, _LEARN_EVERY_S).not_done:
                # What waits for its turn is judged by the newest epoch and pause; a topic that
                # cannot be read stops the next step, not this one.
                with suppress(SinkError):
                    self._learn()
        return results

    def _result(self, content: Task | RefusedRecord | None) -> Result | None:
        """The result of a record; None: nothing is to be done."""
        if not isinstance(content, Task):
            return content
        if content.approved:
            return Done(content, self._outcome(content))
        # Asked once: an objection that ends between two questions would let it pass unapproved.
        objection = self._facts.objection_at_arrival(content)
        if objection is None:
            return HeldBack(content)
        return Done(content, self._decided(content, refusal(objection, None), None))

    def _outcome(self, task: Task) -> Outcome:
        """Of a command that was being carried out when the last process ended, the cluster is asked
        before anything is done.
        """
        if task.entry is not None:
            if task.entry.outcome is not None:
                return decode_outcome(task.entry.outcome)
            effect = self._applier.after_interruption(task.command, self._allowance(task, ()))
            if effect is not None:
                return self._decided(task, effect, task.entry.owner)
        if task.denied is not None:
            return self._decided(task, refusal(task.denied, None), None)
        judgement = judge(
            task.command, self._facts.of_command(task), self._facts.of_cluster, self._config
        )
        if judgement.effect is not None:
            return self._decided(task, judgement.effect, judgement.owner)
        return self._applied(task, judgement)

    def _applied(self, task: Task, judgement: Judgement) -> Outcome:
        """Waits for the command's turn; the last objections are asked for after that, right before
        each call.
        """
        if not self._limiter.acquire():
            raise Stopped("The executor is stopping; the command is left for the next start.")
        owner, brokers = judgement.owner, judgement.brokers
        use = BundleUse()
        if task.command.is_move and owner is not None:
            use = self._meter.before(task.command.bundle, owner)
        effect = self._too_late(task, judgement)
        if effect is not None:
            return self._decided(task, effect, effect.owner_after)
        begun = time.monotonic()
        self._journal.intend(task.received, owner, self._clock_ms())
        self.applying.add(task.command.id)
        try:
            effect = self._applier.apply(task.command, self._allowance(task, brokers, use))
            took_ms = int((time.monotonic() - begun) * 1000)
            return self._decided(task, effect, owner, took_ms, use)
        finally:
            self.applying.discard(task.command.id)
            self.guard.breaker.end(task.command.id)

    def _too_late(self, task: Task, judgement: Judgement) -> Effect | None:
        """The effect of a command that may not begin any more. The owner is asked again: an unload
        goes to whichever broker has the bundle, and its clients would be interrupted once more.
        """
        command, owner, brokers = task.command, judgement.owner, judgement.brokers
        objection = self._facts.objection(task, brokers)
        if objection is None:
            try:
                owner = self._facts.owner(command, brokers)
            except CallFailed as error:
                return effect_of_failed_read(error)
            objection = (
                owner_objection(command, owner)
                or self._facts.closed(command)
                or self.guard.breaker.begin(command.id)
            )
        return None if objection is None else refusal(objection, owner)

    def _allowance(
        self, task: Task, brokers: Sequence[str], use: BundleUse = BundleUse()
    ) -> Allowance:
        if not self._config.apply:
            # Of a command that another process was carrying out, a dry run only says what became.
            return Allowance(
                lambda: False,
                unloads=self._moves.unloads(task.received),
                refuse_repair=lambda _: "this is a dry run",
                claims=False,
            )
        return Allowance(
            lambda: self._facts.objection(task, brokers) is None,
            lambda number: self._moves.begin_unload(task.received, number),
            self._moves.unloads(task.received),
            lambda owner: self.guard.refuse_repair(
                lambda: self._facts.objection_to_repair(task, owner)
            ),
            use.had_clients,
        )

    def _decided(
        self,
        task: Task,
        effect: Effect,
        before: str | None,
        took_ms: int = 0,
        use: BundleUse = BundleUse(),
    ) -> Outcome:
        command = task.command
        first_ms = self._meter.first_message_ms(use, effect.owner_after, effect.released_s)
        now_ms = self._clock_ms()
        outcome = Outcome(
            command.id,
            command.cluster,
            command.bundle,
            effect.status,
            effect.reason and effect.reason[:_LONGEST_REASON],
            before,
            effect.owner_after,
            took_ms,
            now_ms,
            MoveCost(effect.unowned_ms, first_ms, use.topics, effect.unloads, use.manager),
        )
        self._inform_guard(outcome, is_move=command.is_move)
        self._journal.decide(
            task.received,
            effect.status,
            encode_outcome(outcome),
            now_ms,
            # A record that only claims to be the command must not take the command's place.
            counts=task.believed
            and (task.denied is None or task.denied.code != NOT_THE_APPROVED_PLAN),
        )
        return outcome

    def _inform_guard(self, outcome: Outcome, *, is_move: bool) -> None:
        """Reports an outcome to the guard."""
        result = result_of(outcome.status, outcome.reason, outcome.ts, is_move=is_move)
        if result is not None and self._config.apply:
            self.guard.breaker.add(result)
        if (outcome.reason or "").startswith("unowned:"):
            self.guard.unowned.add(outcome.bundle)
