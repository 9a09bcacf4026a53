"""`rebalancer roll`: restarts brokers one after another, without a bundle on the one that goes."""

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.intent_session import IntentSession, intent_session, say_status
from pulsar_rebalancer.cli.roll.roll_process import ClusterObserver, RollEnd, RollProcess
from pulsar_rebalancer.decisions.intents import IntentError, active_roll, excluded_by
from sinks.graceful_stop import wall_clock_ms
from strategies.cluster.intent_records_and_states import Intent, IntentStatus
from strategies.roll.roll_state_and_evidence import EndProcess, RollRules, RollState, known_brokers

_RestartCommand = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="Restarts a broker: run with sh -c; the broker is $1 and $REBALANCER_BROKER. "
        "Without it, the terminal asks you to restart it.",
    ),
]
_RestartTimeout = Annotated[
    int, typer.Option(metavar="SECONDS", min=1, help="Halt if a broker is not back by then.")
]
_EvenRounds = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, max=1_000, help="Even rounds in a row to wait for at the end."
    ),
]
_Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with the active or halted roll. Name --restart-command and "
        "--max-unavailable again.",
    ),
]
_RestartAgain = Annotated[
    list[str] | None,
    typer.Option(metavar="BROKER", help="With --resume: run its restart once more. Repeatable."),
]
_Cancel = Annotated[
    bool, typer.Option("--cancel", help="End the active roll; its brokers take bundles again.")
]
_GO_ON = (
    "the roll stays as it is: a broker that is being drained is drained on, and none is restarted. "
    "To go on: rebalancer roll --resume; to give up: rebalancer roll --cancel"
)


def roll(
    brokers: Annotated[
        list[str] | None,
        typer.Argument(metavar="BROKER", help="Brokers, host:port; default: all."),
    ] = None,
    *,
    reason: Annotated[str | None, options.REASON] = None,
    by: options.Who = None,
    restart_command: _RestartCommand = "",
    max_unavailable: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Brokers out of service at a time.")
    ] = 1,
    restart_timeout: _RestartTimeout = 600,
    no_even: Annotated[
        bool, typer.Option("--no-even", help="Do not wait at the end until the load is even.")
    ] = False,
    even_rounds: _EvenRounds = RollRules().even_rounds,
    resume: _Resume = False,
    restart_again: _RestartAgain = None,
    cancel: _Cancel = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Restart brokers one after another, the leader last: each is drained, restarted when it is
    empty, and the next one follows when rounds have fresh figures of it again.

    Halts at the first thing that looks wrong, says how to go on, and exits with 1. It may be
    killed at any point: `rebalancer roll --resume` goes on, and restarts no broker twice.
    """
    settings, again = options.settings(config, overrides), set(restart_again or ())
    _check_words(bool(brokers), reason, resume=resume, cancel=cancel, again=bool(again))
    rules = RollRules(
        restart_timeout * 1000,
        by_hand=not restart_command,
        even=not no_even,
        max_unavailable=max_unavailable,
        even_rounds=even_rounds,
    )
    why = ("cancelled" if cancel else "goes on") if reason is None else reason
    with intent_session(settings, cluster, by, why) as session:
        if cancel:
            _cancel(session, as_json=as_json)
            return
        state = RollState("", wall_clock_ms(), rules, again)
        done = _done_before(session) if resume else None
        if done is not None:
            # The process before may have died when there was nothing more to do.
            _finish(session, done, as_json=as_json)
            return
        with closing(ClusterObserver(settings, session.cluster)) as observer:
            if resume:
                record, said = _resume(session, state)
            else:
                record, said = _begin(session, state, brokers or _all_brokers(session, observer))
            process = RollProcess(session, state, observer, restart_command)
            process.write(record)
            session.note(said, "resume" if resume else "asked")
            _finish(session, process.run(), as_json=as_json)


def _check_words(
    brokers: bool, reason: str | None, *, resume: bool, cancel: bool, again: bool
) -> None:
    """Raises BadParameter for options that do not fit together."""
    if resume and cancel:
        raise typer.BadParameter("--resume and --cancel exclude each other")
    if again and not resume:
        raise typer.BadParameter("--restart-again needs --resume")
    if brokers and (resume or cancel):
        raise typer.BadParameter("--resume and --cancel are for the brokers of the active roll")
    if reason is None and not (resume or cancel):
        raise typer.BadParameter("a new roll needs a --reason TEXT")


def _begin(session: IntentSession, state: RollState, brokers: Sequence[str]) -> tuple[Intent, str]:
    """The record that begins a roll, and what the process says of it. Raises IntentError."""
    most = state.rules.max_unavailable
    record = session.judged(session.record("roll", brokers=tuple(brokers), max_unavailable=most))
    state.roll = record.id
    how = "in turn" if most == 1 else f"up to {most} at a time"
    return record, f"asked to roll {len(brokers)} brokers {how}, as {record.by}"


def _resume(session: IntentSession, state: RollState) -> tuple[Intent, str]:
    """The record that goes on with the active roll, and what the process says of it. Raises
    IntentError.
    """
    status = _active(session)
    state.roll = status.id
    for broker in sorted(state.due):
        phase = status.phases.get(broker, "no broker of this roll")
        if phase != "restarting":
            raise IntentError(
                f"--restart-again {broker}: it is {phase}; only a broker in phase restarting can "
                "be restarted again. `rebalancer intents` shows the phases."
            )
    record = session.judged(session.record("resume", roll=state.roll))
    return record, f"goes on with the roll of {status.by} ({status.reason})"


def _done_before(session: IntentSession) -> EndProcess | None:
    """The end of the newest roll, if it is done."""
    rolls = [one for one in session.newest.intents if one.action == "roll"]
    if active_roll(session.newest) is None and rolls and rolls[-1].state == "done":
        return EndProcess("done", rolls[-1].text, rolls[-1].advice)
    return None


def _cancel(session: IntentSession, *, as_json: bool) -> None:
    status = _active(session)
    record = session.judged(session.record("end", roll=status.id))
    session.write(record)
    session.note("asked to end the roll; waits for the next round", "asked")
    ended = session.answered(record)
    sentence = f"the roll has ended ({ended.state}): {ended.text}. {ended.advice}"
    say_status(ended, session.cluster, sentence, as_json=as_json)


def _active(session: IntentSession) -> IntentStatus:
    status = active_roll(session.newest)
    if status is None:
        raise IntentError(
            f"no roll of {session.cluster} is active; `rebalancer intents` shows those of the "
            "last hour, and `rebalancer roll --reason TEXT` begins one"
        )
    return status


def _all_brokers(session: IntentSession, observer: ClusterObserver) -> tuple[str, ...]:
    """All brokers of the newest round that may be drained. Raises IntentError if the cluster has
    others.
    """
    newest = session.newest
    excluded, known = {*excluded_by(newest)}, known_brokers(newest)
    unknown = sorted({*observer.brokers()} - known - excluded)
    if unknown:
        raise IntentError(
            f"{unknown[0]} is a broker of the cluster, and the newest round does not know it: "
            "check that `rebalancer collect` reaches it, or name the brokers to roll"
        )
    return tuple(sorted(known - excluded))


def _finish(session: IntentSession, end: RollEnd | None, *, as_json: bool) -> None:
    """Prints the end of the process. Raises typer.Exit."""
    if end is None:
        session.interrupted(_GO_ON)
    state = end.code if isinstance(end, EndProcess) else "halted"
    if as_json:
        advice = {} if state == "done" else {"advice": end.advice}
        console.print_json("roll", 1, {"state": state, "text": end.text, **advice})
    elif state == "done":
        console.say(f"the roll is done: {end.text}")
    if state != "done":
        console.progress(f"{state}: {end.text}. {end.advice}")
        raise typer.Exit(exit_codes.ERROR)
