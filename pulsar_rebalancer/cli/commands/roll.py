"""`rebalancer roll`: restarts brokers one after another, without a bundle on the one that goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.intents import IntentSession, intent_session, say_status
from pulsar_rebalancer.cli.roll.observe import ClusterObserver
from pulsar_rebalancer.cli.roll.obstacles import WaitingPlans
from pulsar_rebalancer.cli.roll.process import RollEnd, RollPlan, RollProcess
from pulsar_rebalancer.cli.roll.restarts import RestartCommands
from pulsar_rebalancer.decisions.intents import IntentError, active_roll, excluded_by
from pulsar_rebalancer.settings.load import Settings
from sinks.executor.settings import state_folder
from sinks.pulsar_api.known_brokers import KnownBrokers
from sinks.wall_clock import wall_clock_ms
from strategies.cluster.intent_contract import IntentStatus
from strategies.roll.steps import EndProcess
from strategies.roll.view import RollMemory, RollRules

app = typer.Typer()

_GO_ON = (
    "the roll stays as it is: a broker that is being drained is drained on, and none is restarted. "
    "To go on: rebalancer roll --resume; to give up: rebalancer roll --cancel"
)


@dataclass(frozen=True, slots=True)
class RollOptions:
    """What the person wants. `even_rounds`: to wait for at the end; `again`: brokers to restart
    once more.
    """

    brokers: tuple[str, ...]
    command: str
    max_unavailable: int
    restart_timeout_ms: int
    even_rounds: int
    again: frozenset[str]
    as_json: bool

    @property
    def rules(self) -> RollRules:
        return RollRules(
            self.restart_timeout_ms,
            by_hand=not self.command,
            even=self.even_rounds > 0,
            even_rounds=self.even_rounds,
        )


@app.command("roll", short_help="Restart brokers one after another.")
def roll_command(
    brokers: Annotated[
        list[str] | None,
        typer.Argument(metavar="BROKER", help="Brokers, host:port; default: all."),
    ] = None,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Reason, for the record.")
    ] = None,
    by: options.Who = None,
    restart_command: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Restarts a broker: run with sh -c; the broker is $1 and $REBALANCER_BROKER. "
            "Without it, the terminal asks you to restart it.",
        ),
    ] = "",
    max_unavailable: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Brokers out of service at a time.")
    ] = 1,
    restart_timeout: Annotated[
        int,
        typer.Option(metavar="SECONDS", min=1, help="Halt if a broker is not back by then."),
    ] = 600,
    no_even: Annotated[
        bool, typer.Option("--no-even", help="Do not wait at the end until the load is even.")
    ] = False,
    even_rounds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1_000, help="Even rounds in a row to wait for at the end."
        ),
    ] = RollRules().even_rounds,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the active or halted roll. Name --restart-command and "
            "--max-unavailable again.",
        ),
    ] = False,
    restart_again: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER", help="With --resume: run its restart once more. Repeatable."
        ),
    ] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the active roll; its brokers take bundles again.")
    ] = False,
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
    settings = options.settings(config, overrides)
    again = frozenset(restart_again or ())
    _check_words(bool(brokers), reason, resume=resume, cancel=cancel, again=bool(again))
    wanted = RollOptions(
        tuple(brokers or ()),
        restart_command,
        max_unavailable,
        restart_timeout * 1000,
        0 if no_even else even_rounds,
        again,
        as_json,
    )
    why = ("cancelled" if cancel else "goes on") if reason is None else reason
    with intent_session(settings, cluster, by, why) as session:
        if cancel:
            _cancel(session, as_json=as_json)
        elif resume:
            _resume(session, wanted)
        else:
            _begin(session, wanted)


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


def _begin(session: IntentSession, wanted: RollOptions) -> None:
    with _looking(session.settings) as observer:
        brokers = wanted.brokers or _all_brokers(session, observer)
        record = session.judged(
            session.record("roll", brokers=brokers, max_unavailable=wanted.max_unavailable)
        )
        process = _process(session, wanted, observer, record.id)
        process.write(record)
        how = (
            "in turn"
            if wanted.max_unavailable == 1
            else f"up to {wanted.max_unavailable} at a time"
        )
        session.note(f"asked to roll {len(brokers)} brokers {how}, as {record.by}", "asked")
        _finish(session, process.run(), wanted)


def _resume(session: IntentSession, wanted: RollOptions) -> None:
    rolls = [one for one in session.newest.intents if one.action == "roll"]
    if active_roll(session.newest) is None and rolls and rolls[-1].state == "done":
        # The process before may have died when there was nothing more to do.
        _finish(session, EndProcess("done", rolls[-1].text, rolls[-1].advice), wanted)
        return
    status = _active(session)
    waiting = [one for one in sorted(wanted.again) if status.phases.get(one) != "restarting"]
    if waiting:
        phase = status.phases.get(waiting[0], "no broker of this roll")
        raise IntentError(
            f"--restart-again {waiting[0]}: it is {phase}; only a broker in phase restarting can "
            "be restarted again. `rebalancer intents` shows the phases."
        )
    with _looking(session.settings) as observer:
        process = _process(session, wanted, observer, status.id)
        process.write(session.judged(session.record("resume", roll=status.id)))
        session.note(f"goes on with the roll of {status.by} ({status.reason})", "resume")
        _finish(session, process.run(), wanted)


def _cancel(session: IntentSession, *, as_json: bool) -> None:
    status = _active(session)
    record = session.judged(session.record("end", roll=status.id))
    session.write(record)
    session.note("asked to end the roll; waits for the next round", "asked")
    ended = session.answered(record)
    assert ended is not None
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
    excluded = {*excluded_by(newest)}
    known = {*newest.brokers, *newest.usage, *newest.stale}
    unknown = sorted({*observer.brokers()} - known - excluded)
    if unknown:
        raise IntentError(
            f"{unknown[0]} is a broker of the cluster, and the newest round does not know it: "
            "check that `rebalancer collect` reaches it, or name the brokers to roll"
        )
    return tuple(sorted(known - excluded))


@contextmanager
def _looking(settings: Settings) -> Iterator[ClusterObserver]:
    with ExitStack() as stack:
        known = KnownBrokers(
            settings.connections.pulsar, [state_folder(settings.executor)], write=False
        )
        observer = ClusterObserver(settings.connections, known, lambda _: False, wall_clock_ms())
        stack.callback(observer.close)
        yield observer


def _process(
    session: IntentSession, wanted: RollOptions, observer: ClusterObserver, roll: str
) -> RollProcess:
    plans = WaitingPlans(session.settings, session.cluster)
    plan = RollPlan(roll, wanted.rules, wanted.max_unavailable, plans.obstacle)
    memory = RollMemory(wall_clock_ms(), due=wanted.again)
    return RollProcess(session, plan, observer, RestartCommands(wanted.command), memory)


def _finish(session: IntentSession, end: RollEnd | None, wanted: RollOptions) -> None:
    """Prints the end of the process. Raises typer.Exit, IntentError."""
    if end is None:
        session.interrupted(_GO_ON)
    if isinstance(end, EndProcess) and end.code == "done":
        if wanted.as_json:
            console.print_json("roll", 1, {"state": "done", "text": end.text})
        else:
            console.say(f"the roll is done: {end.text}")
        return
    state = end.code if isinstance(end, EndProcess) else "halted"
    if wanted.as_json:
        body = {"state": state, "text": end.text, "advice": end.advice}
        console.print_json("roll", 1, body)
    console.progress(f"{state}: {end.text}. {end.advice}")
    raise typer.Exit(exit_codes.ERROR)
