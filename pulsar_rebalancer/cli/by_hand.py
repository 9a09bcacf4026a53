"""Moves and splits by hand, as `move`, `unload`, `undo` and `split` share them: shows what the next
round would do, asks, writes the records, and waits until it is done.
"""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import typer

from pulsar_rebalancer.cli import console, exit_codes
from pulsar_rebalancer.cli.intent_session import (
    IntentSession,
    as_object,
    in_groups,
    intent_session,
    statuses_of,
)
from pulsar_rebalancer.cli.service_log import Line
from pulsar_rebalancer.decisions.explain.explanation_lines import points
from pulsar_rebalancer.decisions.intents import IntentError
from pulsar_rebalancer.decisions.preview import PresentCluster, Proposal, read_present
from pulsar_rebalancer.settings.merge_sources import Settings
from pulsar_rebalancer.settings.reported_release import in_reported_release
from sinks.graceful_stop import handling, wall_clock_ms
from strategies.cluster.intent_records_and_states import (
    ENDED,
    Intent,
    IntentStatus,
    status_of_refused,
)
from strategies.cluster.model import MIB, Command
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.states_and_advice_of_codes import NOTHING

_PROGRESS = "its progress: rebalancer intents"
_COLUMNS: Sequence[tuple[str, console.Side]] = (
    ("bundle", "left"),
    ("from, usage", "left"),
    ("to, usage", "left"),
)
_STATES = {
    "moving": "on their way",
    "blocked": "waiting",
    "cancelled": "given up",
    "refused": "refused",
}


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """How a person wants to be asked and answered."""

    #: Nothing is asked: what is shown shall be done.
    yes: bool
    no_wait: bool
    as_json: bool


@contextmanager
def present_session(
    settings: Settings, cluster: str | None, by: str | None, reason: str
) -> Iterator[tuple[IntentSession, PresentCluster]]:
    """A session as `intent_session`, and its cluster as the next round will find it by these
    settings. Raises IntentError, SettingsError, SinkError.
    """
    with intent_session(settings, cluster, by, reason) as session:
        newest, engine = session.newest, in_reported_release(settings).engine
        used = f"{engine.strategy}/{engine.mode}"
        if newest.strategy != used:
            session.log.write(
                Line(
                    f"the job decides by {newest.strategy}, these settings say {used}: what is "
                    "shown follows these. Name the job's settings file with --config",
                    "settings",
                    "warning",
                )
            )
        yield session, read_present(settings.connections, engine, newest, wall_clock_ms())


def ask_moves(
    session: IntentSession,
    present: PresentCluster,
    moves: Sequence[tuple[str, str | None]],
    chosen: MoveOptions,
) -> None:
    """Asks for moves, bundle and destination (None: any broker), as `ask` does."""
    records = [session.record("move", to, bundle=bundle) for bundle, to in moves]
    ask(session, present, records, chosen, show=show_moves)


def ask(
    session: IntentSession,
    present: PresentCluster,
    records: Sequence[Intent],
    chosen: MoveOptions,
    *,
    show: Callable[[Sequence[Proposal], PresentCluster], None],
) -> None:
    """Shows what would become of records about bundles, all moves or all splits, and asks for
    those that can be. Raises IntentError if one is refused or does not happen, after all
    others have ended; typer.Exit without a yes, and after a signal.
    """
    asked_ms, verb = wall_clock_ms(), records[0].action
    intents = [replace(one, ts=asked_ms + place) for place, one in enumerate(records)]  # in order
    proposals = present.preview(intents)
    wanted = [one.as_shown for one in proposals if one.status.state not in ENDED]
    left = [one.status for one in proposals if one.status.state == "refused"]
    if not chosen.as_json and len(left) < len(proposals):
        show(proposals, present)
    what = f"{counted(len(wanted), 'bundle')} of {session.cluster}"
    asked = bool(wanted) and (
        chosen.yes or (not chosen.as_json and agrees(f"{verb.capitalize()} {what}?"))
    )
    last = dict[str, IntentStatus]()
    try:
        if asked:
            waited_ms = wall_clock_ms() - asked_ms  # maybe longer than a record is believed
            session.write(*(replace(one, ts=one.ts + waited_ms) for one in wanted))
            session.note(f"asked to {verb} {what} as {session.by}; {_PROGRESS}", "asked")
        if asked and not chosen.no_wait:
            _wait(session, wanted, last)
    finally:
        if chosen.as_json:
            body = {"cluster": session.cluster, "asked": asked}
            rows = [_as_object(one, last) for one in proposals]
            console.print_json(f"{verb}s", 1, {**body, f"{verb}s": rows})
    if wanted and not asked:
        console.progress("nothing has been asked; --yes does what is shown")
        raise typer.Exit(exit_codes.NOT_ASKED)
    left += [one for one in last.values() if one.state != "done"]
    if left:
        not_done = "did not move" if verb == "move" else "was not split as asked"
        reasons = [(one.bundle or "", f"{not_done}: {with_advice(one)}") for one in left]
        lines = [f"{bundles} {why}" for bundles, why in in_groups(reasons)]
        raise IntentError(" ".join(lines if asked else [*lines, "Nothing has changed."]))


def agrees(question: str) -> bool:
    """Asks on the terminal; False without one."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    with handling(signal.default_int_handler, signal.SIGINT):
        try:
            return typer.confirm(question, err=True)
        except typer.Abort:
            console.progress("")
            return False


def _wait(session: IntentSession, wanted: Sequence[Intent], last: dict[str, IntentStatus]) -> None:
    """Waits until moves or splits have ended, also if the job refuses some of them. Keeps `last`
    up to date: id → last status.
    """
    if session.settings.executor.approval == "required":
        session.note("each command waits for approval: rebalancer plans", "approval")
    said = ""
    for found in statuses_of(session, wanted, f"the {wanted[0].action}s go on; {_PROGRESS}"):
        rejected = (
            (one, session.answers.rejection(one.id)) for one in wanted if one.id not in last
        )
        last |= {
            one.id: status_of_refused(one, one.ts, text=why, advice=NOTHING)
            for one, why in rejected
            if why is not None
        }
        last |= {status.id: status for status in found}
        line = _progress(list(last.values()), len(wanted)) if last else said
        if line != said:
            session.note(line, "progress")
            said = line
        if sum(one.state in ENDED for one in last.values()) == len(wanted):
            break


def _progress(known: Sequence[IntentStatus], number: int) -> str:
    """`t/ns/0x0_0x1: moving, leaves a:1 for b:1`; `3 of 8 have moved, 2 are on their way, 3 wait`,
    with the reason of the first that waits.
    """
    if number == 1:
        return f"{known[0].bundle}: {known[0].state}, {known[0].text}"
    states = Counter[str](one.state for one in known)
    parts = [f"{states[code]} {word}" for code, word in _STATES.items() if states[code]]
    why = next((f": {one.text}" for one in known if one.state == "blocked"), "")
    return ", ".join([f"{states['done']} of {number} have moved", *parts]) + why


def show_moves(proposals: Sequence[Proposal], present: PresentCluster) -> None:
    """Prints what would move, and why other bundles would not."""
    rows = [_row(one, one.command) for one in proposals if one.command is not None]
    if rows:
        console.show(console.Sheet(_COLUMNS, rows))
        basis = "assumed until one is measured"
        if present.measured:
            basis = f"by {counted(present.measured, 'measured move')}"
        console.say(f"pause: how long clients of a bundle wait while it moves, {basis}")
    left = [(one.intent.bundle or "", stays(one.status)) for one in proposals if not one.command]
    console.say(*(f"{bundles} {why}" for bundles, why in in_groups(left)))


def stays(status: IntentStatus) -> str:
    """The end of a sentence about a bundle without a command."""
    how = "stays" if status.state in ENDED else "would wait"
    return f"{how}: {with_advice(status)}"


def with_advice(status: IntentStatus) -> str:
    """The sentence of a status and the next step, if there is one."""
    return status.text if status.advice == NOTHING else f"{status.text}. {status.advice}"


def _row(one: Proposal, command: Command) -> list[console.Cell]:
    bundle, expected = one.bundle, command.expected
    assert bundle is not None  # a round moves only what reports list
    size = f"{bundle.throughput / MIB:.1f} MiB/s, {counted(bundle.topics, 'topic')}"
    return [
        (command.bundle, f"{size}, pause {bundle.pause_ms / 1000:.2f} s"),
        (command.source, _change(expected.source_before, expected.source_after)),
        (
            command.destination or "Pulsar chooses",
            _change(expected.destination_before, expected.destination_after),
        ),
    ]


def _change(before: float | None, after: float | None) -> str:
    known = before is not None and after is not None
    return f"{points(before or 0)} → {points(after or 0)} %" if known else ""


def _as_object(one: Proposal, last: Mapping[str, IntentStatus]) -> dict[str, Any]:
    """A proposal, and the last status of its intent; None before it is waited for."""
    command, status = one.command, last.get(one.intent.id)
    return {
        "bundle": one.intent.bundle,
        "present": None if one.bundle is None else asdict(one.bundle),
        "destination": None if command is None else command.destination,
        "expected": None if command is None else asdict(command.expected),
        "shares": one.shares,
        "children": None if one.children is None else _as_object(one.children, {}),
        "preview": as_object(one.status),
        "intent": None if status is None else as_object(status),
    }
