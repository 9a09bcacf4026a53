"""Parts that the commands about drains and rolls share: one person, one cluster, records written
and answered by rounds; and how long a drain is waited for.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, NoReturn, TypeVar
from uuid import uuid4

import typer

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.service_log import Line, Log, log_of
from pulsar_rebalancer.decisions.intents import (
    IntentAnswers,
    IntentError,
    check_words,
    judge,
    newest_rounds,
    round_of_cluster,
    write_intents,
)
from pulsar_rebalancer.decisions.read_status import late_after_ms
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import Stop, stopping, wall_clock_ms
from sinks.wire.operator_records import encode_intent
from sinks.wire.signing_keys import SigningKey, intents_key
from strategies.cluster.intent_records_and_states import ENDED, Intent, IntentAction, IntentStatus
from strategies.cluster.model import Round
from strategies.figures.texts_of_counts_names_and_ages import age, first_of

#: Pause (s) between two looks for new rounds.
LOOK_S = 0.5
#: Rounds without an answer to a record, after which none is expected any more.
_UNANSWERED = 5
_DURATIONS = re.compile(r"\b[0-9]+ (?:s|min|h|d)\b")
#: Rounds in a row that do not know a drain any more, after which it has ended.
_UNKNOWN = 5
#: Number of bundles or intents that a line names.
_NAMED = 3
K = TypeVar("K")


@dataclass(frozen=True)
class IntentSession:
    """One person who drains or rolls on one cluster. `newest`: its newest round at the start;
    `log`: gets what happens, with times; `remind_s`: time without a round after which it says so.
    """

    settings: Settings
    key: SigningKey | None
    by: str
    reason: str
    newest: Round
    answers: IntentAnswers
    stop: Stop
    log: Log
    remind_s: float = 60.0

    @property
    def cluster(self) -> str:
        return self.newest.cluster

    def record(
        self,
        action: IntentAction,
        broker: str | None = None,
        *,
        reason: str | None = None,
        **given: Any,
    ) -> Intent:
        """A new record. Raises SettingsError for a reason that does not fit into it."""
        why = self.reason if reason is None else reason
        check_words(self.by, why)
        return Intent(
            self.cluster, wall_clock_ms(), uuid4().hex, action, self.by, why, broker, **given
        )

    def judged(self, intent: Intent) -> Intent:
        """The record. Raises IntentError with the reason if the job would refuse it."""
        why = judge(self.newest, intent)
        if why is not None:
            raise IntentError(f"{why.line} Nothing has changed.")
        return intent

    def write(self, *intents: Intent) -> None:
        """Signs records, if there is a key, and returns when they are on the telemetry topic. The
        same record may be published again: it counts once. Raises SettingsError, SinkError.
        """
        write_intents(self.settings.connections, self.key, intents)

    def note(self, text: str, event: str = "note", **fields: Any) -> None:
        """One line of progress to standard error."""
        self.log.write(Line(text, event, fields=fields))

    def rounds(self, until: str) -> Iterator[list[Round]]:
        """The new rounds, none if there are none, until the caller has seen enough. `until`: the
        sentence for who interrupts. Raises typer.Exit.
        """
        last = time.monotonic()
        while not self.stop.is_set():
            done = self.answers.rounds()
            if done or time.monotonic() - last >= self.remind_s:
                if not done:
                    self.note(
                        "still waits for a round: check with `rebalancer doctor` that job and "
                        "collector run",
                        "waiting",
                    )
                last = time.monotonic()
            yield done
            self.stop.wait(LOOK_S)
        self.interrupted(until)

    def interrupted(self, sentence: str) -> NoReturn:
        """Ends the command after a signal, before what it waits for is done. Raises typer.Exit."""
        console.progress(sentence)
        if self.stop.by == "SIGINT":
            raise typer.Exit(exit_codes.INTERRUPTED)
        raise typer.Exit(exit_codes.TERMINATED)

    def answered(
        self, intent: Intent, accepted: Callable[[Round], IntentStatus | None] | None = None
    ) -> IntentStatus:
        """Waits for the round that answers a record; its status. `accepted`: finds the status of a
        record that has none itself.

        Raises IntentError if it is refused, typer.Exit after a signal.
        """
        later, before = 0, True
        left = (
            f"interrupted, but the record to {intent.in_words} is written: a round will carry it "
            "out or refuse it. `rebalancer intents` shows what becomes of it."
        )
        for done in self.rounds(left):
            answer = self.answers.answer(intent.id, done)
            if isinstance(answer, str):
                raise IntentError(f"refused: {answer}")
            if answer is not None and answer.state == "refused":
                raise IntentError(f"refused: {answer.text}. {answer.advice}")
            if answer is not None:
                return answer
            for one in done:
                status = None if accepted is None else accepted(one)
                if status is not None:
                    return status
                # The first rounds that are read may be from before the record.
                later += not before and one.ts > intent.ts
            before = False
            if later >= _UNANSWERED:
                raise IntentError(
                    f"{_UNANSWERED} rounds do not mention the record to {intent.in_words}. Check "
                    "the clock of this machine, and that topics.telemetry here is the job's: "
                    "`rebalancer doctor`."
                )
        raise AssertionError("rounds() has no end")


@contextmanager
def intent_session(
    settings: Settings, cluster: str | None, by: str | None, reason: str
) -> Iterator[IntentSession]:
    """Opens the topics of a cluster's rounds. `cluster`, `by`: None = as in the settings, and this
    user. Raises IntentError, SettingsError, SinkError.
    """
    person = options.person_of(by)
    check_words(person, reason)
    connections, log, now_ms = settings.connections, log_of(settings), wall_clock_ms()
    key = intents_key(connections.signing)
    rounds = newest_rounds(connections, now_ms)
    wanted = cluster or connections.pulsar.cluster
    newest = round_of_cluster(rounds, wanted, connections.topics.rounds)
    if now_ms > late_after_ms(newest, settings.engine.round):
        log.write(
            Line(
                f"the newest round is {age(now_ms - newest.ts)} old, and only rounds carry this "
                "out: check with `rebalancer doctor` that `rebalancer run` and `collect` run",
                "late",
                "warning",
            )
        )
    answers = IntentAnswers(connections, newest, now_ms, log.write)
    with stopping() as stop, closing(answers):
        remind_s = max(60.0, settings.engine.round.interval_ms / 500)
        yield IntentSession(settings, key, person, reason, newest, answers, stop, log, remind_s)


def drained(session: IntentSession, record: Intent) -> IntentStatus:
    """Shows the progress of a drain until it is drained, or has ended. Raises IntentError if rounds
    refuse it or know it no more, typer.Exit after a signal.
    """
    last = ""
    how = (
        "the drain goes on; its progress: rebalancer intents; to end it: rebalancer undrain "
        f"{record.broker}"
    )
    later = chain.from_iterable(statuses_of(session, [record], how))
    for status in chain([session.answered(record)], later):
        if status.state in ("drained", *ENDED):
            return status
        line = progress_of(status)
        if (news := without_durations(line)) != last:
            session.note(line, status.state, left=status.left, total=status.total)
            last = news
    raise AssertionError("rounds have no end")


def statuses_of(
    session: IntentSession, records: Sequence[Intent], how: str
) -> Iterator[list[IntentStatus]]:
    """The statuses of drains, or of moves, in each new round. `how`: the sentence for who
    interrupts. Raises IntentError if rounds know none of them any more.
    """
    ids, first = {record.id for record in records}, records[0]
    known_ms, without = first.ts, 0
    for done in session.rounds(how):
        for one in done:
            found = [status for status in one.intents if status.id in ids]
            if found:
                known_ms, without = max(known_ms, one.ts), 0
            else:
                # A new checkpoint first repeats rounds from before the record.
                without += one.ts > known_ms
            yield found
        if without >= _UNKNOWN:
            raise IntentError(
                f"{_UNKNOWN} rounds do not know the {first.action} of "
                f"{first.bundle or first.broker} any more: the job may have a new checkpoint, or "
                "the clock of this machine or topics.telemetry here differs from the job's. "
                f"`rebalancer intents` shows what lasts; if the {first.action} is not among it, "
                f"ask for the {first.action} again."
            )


def progress_of(status: IntentStatus) -> str:
    """`draining: 3 of 9 bundles are left …`, with what to do where something is in the way."""
    advice = f". {status.advice}" if status.state in ("blocked", "halted") else ""
    left = ""
    if status.left_ms is not None and status.error_ms is not None:
        left = f"; about {age(status.left_ms)} left, give or take {age(status.error_ms)}"
    return f"{status.state}: {status.text}{left}{advice}"


def without_durations(line: str) -> str:
    """The line without its durations, which alone are no news."""
    return _DURATIONS.sub("", line)


def left_of(status: IntentStatus) -> str:
    """`3 of 9, about 2 min`; - without a number."""
    if status.left is None or status.total is None:
        return "-"
    about = f", about {age(status.left_ms)}" if status.left_ms else ""
    return f"{status.left} of {status.total}{about}"


def in_groups(reasons: Iterable[tuple[str, K]]) -> list[tuple[str, K]]:
    """Those with the same reason together: `a, b, c and 2 more`, and the reason."""
    names: dict[K, list[str]] = {}
    for name, why in reasons:
        names.setdefault(why, []).append(name)
    return [(first_of(alike, _NAMED), why) for why, alike in names.items()]


def as_object(status: IntentStatus) -> dict[str, Any]:
    """A status as in the record of a round."""
    return {**asdict(status), "phases": dict(status.phases)}


def say_record(intent: Intent, sentence: str, *, as_json: bool) -> None:
    """Prints that a record is written."""
    body = {"intent": json.loads(encode_intent(intent))}
    console.answer("intent", body, sentence, as_json=as_json)


def say_status(status: IntentStatus, cluster: str, sentence: str, *, as_json: bool) -> None:
    """Prints what a drain or a roll has come to."""
    body = {"cluster": cluster, "intent": as_object(status)}
    console.answer("intent-status", body, sentence, as_json=as_json)
