"""What a word on the command line means: a round's number, a command's id, a broker or a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from cli.explain.history import History
from strategies.errors import RebalancerError

Kind = Literal["round", "command", "broker", "bundle"]


class UnknownSubject(RebalancerError):
    """Nothing that was decided mentions it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """`name` as it stands in the records."""

    kind: Kind
    name: str


def find(word: str, history: History) -> Subject:
    """Raises UnknownSubject with the nearest names there are. The beginning of a command's id is enough when only one begins so."""
    if word.isdecimal() and any(one.round == int(word) for one in history.rounds):
        return Subject("round", str(int(word)))
    ids = [command.id for command in history.commands if command.id.startswith(word)] if len(word) >= 4 else []
    if word in ids or len(ids) == 1:
        return Subject("command", word if word in ids else ids[0])
    if word in _brokers(history):
        return Subject("broker", word)
    if word in _bundles(history):
        return Subject("bundle", word)
    raise UnknownSubject(_unknown(word, history))


def _unknown(word: str, history: History) -> str:
    if not history.rounds:
        return f"{word}: no round was held yet, so there is nothing to explain"
    if word.isdecimal():
        numbers = [one.round for one in history.rounds]
        return f"{word}: no such round; there are rounds {min(numbers)} to {max(numbers)}"
    known = [*_brokers(history), *_bundles(history), *(command.id for command in history.commands)]
    close = get_close_matches(word, known, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "name a command id, a bundle, a broker (host:port) or a round's number"
    if "/" in word:
        hint += " A bundle that no round mentions lies on a broker that was left alone as a whole: ask for the broker."
    return f"{word}: nothing that was decided mentions it; {hint}"


def _brokers(history: History) -> dict[str, None]:
    """Those that a round saw, and those that it left out."""
    left_out = (name for one in history.rounds for skip in one.skips if skip.subject == "broker" for name in skip.names)
    return dict.fromkeys([*(broker for one in history.rounds for broker in (*one.brokers, *one.stale)), *left_out])


def _bundles(history: History) -> dict[str, None]:
    skipped = (name for one in history.rounds for skip in one.skips if skip.subject == "bundle" for name in skip.names)
    return dict.fromkeys([*(command.bundle for command in history.commands), *skipped])
