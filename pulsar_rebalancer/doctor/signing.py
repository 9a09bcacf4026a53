"""Checks of the key that signs commands: whether it is usable, its file mode, and whether the
newest commands are signed with it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from typing import Literal

from pulsar_rebalancer.cli.finding import Finding, ok
from pulsar_rebalancer.doctor.key_files import open_to_others
from sinks.topics.access import open_reader
from sinks.topics.connections import Connections
from sinks.wire.signing import SigningKey, Verdict, signing_key
from strategies.errors import RebalancerError, SettingsError

_CHECK = "signing key"
_NEWEST = 20
_DAY_MS = 86_400_000
_Signed = Verdict | Literal["previous"]


def check_signing(connections: Connections, now_ms: int, *, compare: bool = True) -> Finding:
    """The most severe finding about the key. `now_ms`: since the epoch; commands of the last day
    are compared.

    `compare`: False where the topic is known to be unreadable.
    """
    path = connections.signing.key_file
    try:
        key = signing_key(connections.signing)
    except SettingsError as error:
        return Finding(_CHECK, "fail", error.complaints[0], "correct that setting")
    if key is None:
        return ok(
            _CHECK,
            "none: commands are not signed, and executors without a key apply every command "
            "on topics.commands",
        )
    try:
        newest = _newest(connections, now_ms - _DAY_MS) if compare else ()
        found = _compared(path, [_verdict(key, value) for value in newest])
    except RebalancerError as error:
        found = Finding(
            _CHECK,
            "warn",
            f"{path} is usable; commands cannot be read: {error}",
            "see the finding about topic commands",
        )
    others = open_to_others((path, connections.signing.previous_key_file))
    if found.status == "ok" and others:
        file, mode = others
        return Finding(
            _CHECK,
            "warn",
            f"{found.text}; mode {mode:04o} lets others read or change the key",
            f"chmod 600 {file}",
        )
    return found


def _verdict(key: SigningKey, value: bytes) -> _Signed:
    """By which of the keys, or as SigningKey says."""
    if key.current.check(value) == "signed":
        return "signed"
    verdict = key.check(value)
    return "previous" if verdict == "signed" else verdict


def _newest(connections: Connections, since_ms: int) -> Sequence[bytes]:
    topic = connections.topics.commands
    if topic.scheme == "file" and not topic.folder.is_dir():
        return ()
    newest: deque[bytes] = deque(maxlen=_NEWEST)
    with closing(open_reader(topic, connections.access, since_ms=since_ms)) as reader:
        while records := reader.read():
            newest.extend(record.value for record in records if not record.unread)
    return newest


def _compared(path: str, verdicts: Sequence[_Signed]) -> Finding:
    if not verdicts:
        return ok(
            _CHECK, f"{path} is usable; there are no commands of the last day to compare with"
        )
    counts = Counter(verdicts)
    if counts["signed"] == len(verdicts):
        return ok(_CHECK, f"{path} is usable and signed the newest {len(verdicts)} commands")
    parts = ", ".join(
        f"{counts[verdict]} {words}" for verdict, words in _WORDS.items() if counts[verdict]
    )
    text = f"{path}: of the newest {len(verdicts)} commands {parts}"
    if counts["signed"] + counts["previous"] == len(verdicts):
        return ok(_CHECK, f"{text}; {_NEXT_STEPS[verdicts[-1]]}")
    if verdicts[-1] in _NEXT_STEPS:
        return Finding(
            _CHECK,
            "warn",
            text,
            "find the program that writes to topics.commands; right after a change of the "
            "key, this is normal",
        )
    return Finding(_CHECK, "fail", f"{text}, including the newest", _REMEDIES[verdicts[-1]])


_WORDS: dict[_Signed, str] = {
    "signed": "are signed with it",
    "previous": "are signed with the key in signing.previous_key_file",
    "wrong": "are signed with another key",
    "unsigned": "are not signed",
}
_NEXT_STEPS: dict[_Signed, str] = {
    "signed": "remove signing.previous_key_file when the older ones have expired",
    "previous": "next, start the job with the new signing.key_file",
}
_REMEDIES: dict[_Signed, str] = {
    "wrong": "give the job and all executors the same key, and restart "
    "the job: executors refuse other "
    "commands (wrong-signature)",
    "unsigned": "start the job with this signing.key_file too: "
    "executors with a key refuse unsigned "
    "commands (unsigned)",
}
