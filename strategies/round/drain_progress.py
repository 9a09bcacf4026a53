"""Derives the state of each drain from a round, and updates the phases of the roll."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import sqrt

from strategies.cluster.cluster_state import BrokerState
from strategies.cluster.intent_records_and_states import RollPhase
from strategies.cluster.remembered_intents import (
    Answers,
    Drain,
    DrainState,
    Intents,
    end_drain,
    finish_drain,
)
from strategies.ordered_sum import ordered_sum
from strategies.round.drain_step import WAITS, DrainStep, Evacuation
from strategies.round.participating_brokers import Screening
from strategies.round.round_input_and_digest import RoundInput, Rules
from strategies.states_and_advice_of_codes import NOTHING, Meaning, Meanings, Refusal

#: Number of rounds in an estimate of the time left, and its minimum number of steps between them.
_ROUNDS, _FEWEST = 10, 2
#: Number of refusals in a row after which a drain counts as blocked.
_REFUSALS = 3
#: Codes of reasons that end by themselves within a round or two.
PASSING = frozenset({WAITS, "settling", "on-two-brokers", "already-leaving", "being-split"})
_WAIT = "Nothing to do: the next rounds go on."
#: The next step where no command is answered.
NO_EXECUTOR = "Check with `rebalancer status` that an executor runs and applies commands."
_POLICIES = "Change the isolation policies, or add brokers that they allow; then drain it again."


@dataclass(frozen=True)
class DrainFacts:
    """Facts of a round about draining brokers."""

    round_input: RoundInput
    #: Broker without fresh figures → the reason.
    stale: Mapping[str, str]
    #: Draining brokers that have left the cluster.
    left_cluster: Collection[str]
    meanings: Meanings

    @cached_property
    def known(self) -> Mapping[str, BrokerState]:
        """Name → state of all brokers of the round."""
        return {state.broker: state for state in self.round_input.brokers}

    @cached_property
    def unanswered(self) -> Mapping[str, int]:
        """Broker → number of commands to move its bundles that expired without an outcome."""
        state, now_ms = self.round_input.state, self.round_input.now_ms
        return Counter(
            move.source
            for bundle, move in state.in_flight.items()
            if bundle in state.orders and not move.left and now_ms >= move.expires_at_ms
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """The new state of a drain, its sentence and the operator's next step."""

    state: DrainState
    text: str
    advice: str = _WAIT


def end_passed_drains(intents: Intents, now_ms: int) -> Intents:
    """Ends the drains whose time has passed."""
    for broker in sorted(intents.drains):
        until_ms = intents.drains[broker].until_ms
        if until_ms is not None and until_ms <= now_ms:
            intents = finish_drain(intents, broker, now_ms, how="its time has passed")
    return _update_phases(intents)


def count_noted_bundles(intents: Intents) -> Intents:
    """Counts all bundles of the notes as being on the drained brokers again, after a broker has
    left that took some of them: Pulsar may have placed a bundle back where it came from. If the
    collector did not list the bundles in between, no new note shows that. A bundle stops counting
    when the note changes, or when an executor finds it elsewhere.
    """
    drains = {broker: replace(drain, gone=()) for broker, drain in intents.drains.items()}
    return replace(intents, drains=drains)


def update_intents(
    round_input: RoundInput, screening: Screening, step: DrainStep, rules: Rules
) -> Intents:
    """Returns the intents after a round, with the states of drains and the phases of the roll."""
    intents = round_input.state.intents
    if not intents.drains:
        return intents
    leavers = _find_leavers(round_input, rules.round.stale_after_ms)
    facts = DrainFacts(round_input, screening.stale, leavers, rules.meanings)
    for broker in sorted(intents.drains):
        if broker in step.evacuation.forbidden:
            intents = _refuse(
                intents, broker, step.evacuation.forbidden[broker], round_input.now_ms
            )
        else:
            drain = _update_drain(intents, intents.drains[broker], step.evacuation, facts)
            intents = replace(intents, drains={**intents.drains, broker: drain})
    return _update_phases(intents)


def _refuse(intents: Intents, broker: str, forbidden: tuple[str, Refusal], now_ms: int) -> Intents:
    """Refuses a drain in its first round, because some bundle has no other broker."""
    namespace, why = forbidden
    text = f"no other broker may take the bundles of {namespace}: another one {why.text}"
    return end_drain(
        intents, broker, now_ms, "refused", text=f"{text} [{why.code}]", advice=_POLICIES
    )


def _update_phases(intents: Intents) -> Intents:
    """Sets the phases of the roll by its drains. Phases of a restart come from records only."""
    roll = intents.roll
    if roll is None:
        return intents
    phases: dict[str, RollPhase] = dict(roll.phases)
    for broker, phase in roll.phases.items():
        if phase in ("draining", "drained"):
            drain = intents.drains.get(broker)
            drained = drain is not None and drain.state == "drained"
            phases[broker] = "waiting" if drain is None else "drained" if drained else "draining"
    return intents if phases == roll.phases else replace(intents, roll=replace(roll, phases=phases))


def _update_drain(
    intents: Intents, drain: Drain, evacuation: Evacuation, facts: DrainFacts
) -> Drain:
    broker, now_ms = drain.broker, facts.round_input.now_ms
    restarting = intents.roll is not None and intents.roll.phases.get(broker) == "restarting"
    remaining = len(evacuation.left[broker]) if broker in evacuation.left else drain.left
    if remaining is not None and broker in evacuation.left:
        note = facts.round_input.owned.get(broker)
        listed = frozenset(() if note is None else note.bundles)
        drain = replace(drain, gone=tuple(name for name in drain.gone if name in listed))
        drain = _count_left(drain, remaining, facts)
    if broker in facts.left_cluster:
        step = _step_of_gone_broker(drain, restarting=restarting)
        drain = replace(drain, left=0)
    elif restarting or (broker not in evacuation.left and drain.was_drained):
        step = _Step("drained", "is being restarted" if restarting else "has no fresh figures")
    elif broker not in facts.known:
        text = "it has withdrawn its figures, as brokers do while bundles move"
        step = _Step("draining" if drain.state == "asked" else drain.state, text)
    elif broker not in evacuation.left:
        why = facts.stale.get(broker, "has no fresh figures")
        step = _Step("blocked", f"{why} [outdated]", facts.meanings["outdated"].advice)
    elif remaining == 0:
        step = _step_of_empty_broker(drain, facts)
    else:
        step = _step_with_bundles_left(drain, evacuation, facts)
    return _apply_step(drain, step, now_ms)


def _count_left(drain: Drain, remaining: int, facts: DrainFacts) -> Drain:
    """Returns the drain with the number of bundles left. Answers of executors count until a bundle
    leaves. Commands without an answer also stop counting when one is answered: by then the next
    command has replaced them.
    """
    before, now_ms = drain.left, facts.round_input.now_ms
    answers = Answers() if before is not None and remaining < before else drain.answers
    expired = max(answers.expired, facts.unanswered.get(drain.broker, 0))
    answers = replace(answers, expired=expired)
    seen = (*(entry for entry in drain.seen if entry[0] < now_ms), (now_ms, remaining))
    left_ms, error_ms = estimate_time_left(seen[-_ROUNDS:])
    return replace(
        drain,
        left=remaining,
        total=max(remaining, drain.total or 0),
        seen=seen[-_ROUNDS:],
        answers=answers,
        left_ms=left_ms,
        error_ms=error_ms,
    )


def estimate_time_left(seen: Sequence[tuple[int, int]]) -> tuple[int | None, int | None]:
    """Estimates the time (ms) until no bundle is left, and the error of the estimate (ms), by the
    rate at which bundles have left. Returns None, None without enough rounds, or if none has left.
    `seen`: (time, bundles left) of the last rounds.

    The error is the standard error of the rate plus one round, because bundles leave in rounds.
    """
    steps = [
        (later[0] - earlier[0], max(0, earlier[1] - later[1]))
        for earlier, later in pairwise(seen)
        if later[0] > earlier[0]
    ]
    count, passed = ordered_sum(step[1] for step in steps), ordered_sum(step[0] for step in steps)
    if len(steps) < _FEWEST or count == 0 or not seen or seen[-1][1] == 0:
        return None, None
    rate, remaining = count / passed, seen[-1][1]
    deviations = [bundles / ms - rate for ms, bundles in steps]
    error = sqrt(ordered_sum(d * d for d in deviations) / (len(steps) - 1) / len(steps)) / rate
    left_ms = round(remaining / rate)
    return left_ms, round(left_ms * error + passed / len(steps))


def _step_of_gone_broker(drain: Drain, *, restarting: bool) -> _Step:
    if restarting:
        return _Step("drained", "is being restarted: it has left the cluster")
    rest = f" with {drain.left} bundles" if drain.left and not drain.was_drained else ""
    return _Step("drained", f"has left the cluster{rest}", NOTHING)


def _step_of_empty_broker(drain: Drain, facts: DrainFacts) -> _Step:
    """Returns the step of a broker whose reports list no bundle: drained, unless a report after the
    last move is missing, or its reports list only some bundles.
    """
    state, broker = facts.known[drain.broker], drain.broker
    moves = [
        bundle
        for bundle, move in facts.round_input.under_way.items()
        if move.destination == broker or (move.source == broker and not move.left)
    ]
    note = facts.round_input.owned.get(broker)
    newest = max(state.reported_at_ms, state.bundles_at_ms, -1 if note is None else note.ts)
    if moves or newest <= state.judged_after_ms:
        return _Step("draining", "no bundle is left; waits for a report after the last move")
    lists_all = note is not None or state.figures.usage_average is None
    if not lists_all and state.figures.bundle_count > 0:
        return _Step(
            "blocked",
            "it reports only its busiest bundles, none of which is left, and no record lists all "
            "of them [bundles-unknown]",
            "Run `rebalancer collect`, which lists them.",
        )
    return _Step("drained", "no bundle is left that could move", "The broker may be stopped.")


def _step_with_bundles_left(drain: Drain, evacuation: Evacuation, facts: DrainFacts) -> _Step:
    broker = drain.broker
    going = sum(decision.source == broker for decision in evacuation.leaving.values())
    going += len(evacuation.under_way[broker])
    text = f"{drain.left} of {drain.total} bundles are left"
    answered = _step_without_effect(drain.answers)
    if answered is not None:
        return replace(answered, text=f"{text}, and {answered.text}")
    if going:
        return _Step("draining", f"{text}, {going} on their way")
    stays = evacuation.stays[broker]
    code, _ = max(
        Counter(why.code for why in stays.values()).items(), key=lambda item: (item[1], item[0])
    )
    bundle, why = next((name, refusal) for name, refusal in stays.items() if refusal.code == code)
    number = sum(refusal.code == code for refusal in stays.values())
    more = f" ({number} bundles)" if number > 1 else ""
    reason = f"{text}, and none may move now: {bundle} {why.text} [{code}]{more}"
    if code in PASSING:
        return _Step("draining", reason)
    return _Step("blocked", reason, facts.meanings.get(code, Meaning(code)).advice or _WAIT)


def _step_without_effect(answers: Answers) -> _Step | None:
    """Returns the step of a drain whose commands move nothing, by the answers since a bundle last
    left; None while they may.
    """
    if answers.dry_runs:
        return _Step(
            "blocked",
            "executors only say what they would do: all outcomes are dry runs [dry-runs-only]",
            "Start an executor with `--apply`, if the bundles may move.",
        )
    if answers.refused >= _REFUSALS:
        return _Step(
            "blocked",
            f"the executor has not carried out the last {answers.refused} commands: "
            f"{answers.last} [not-carried-out]",
            "Do what the reason says; `rebalancer explain` shows each outcome.",
        )
    if answers.expired:
        return _Step(
            "blocked",
            f"{answers.expired} commands have expired without an answer [no-answer]",
            NO_EXECUTOR,
        )
    return None


def _apply_step(drain: Drain, step: _Step, now_ms: int) -> Drain:
    drained_ms = (drain.drained_ms or now_ms) if step.state == "drained" else None
    return replace(
        drain,
        state=step.state,
        since_ms=drain.since_ms if step.state == drain.state else now_ms,
        text=step.text,
        advice=step.advice,
        drained_ms=drained_ms,
        left_ms=drain.left_ms if step.state == "draining" else None,
        error_ms=drain.error_ms if step.state == "draining" else None,
    )


def _find_leavers(round_input: RoundInput, stale_after_ms: int) -> frozenset[str]:
    """Returns the draining brokers that have left the cluster: the sweep does not list them. In a
    round without a sweep these are the brokers without a record for `stale_after_ms`: brokers of
    the extensible load manager withdraw their figures whenever a bundle moves.
    """
    names = {state.broker for state in round_input.brokers}
    if round_input.listed is not None:
        return frozenset({*round_input.state.intents.drains} - names - {*round_input.listed})
    recent = {
        name
        for name, ts in round_input.state.gone.items()
        if ts >= round_input.now_ms - stale_after_ms
    }
    return frozenset(
        {*round_input.state.intents.drains} - names - recent - {*round_input.state.missing}
    )
