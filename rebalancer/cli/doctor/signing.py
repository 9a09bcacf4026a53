"""The key that signs commands: can it be used, who else may read it, and are the newest commands signed with it?"""

from __future__ import annotations

import stat
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rebalancer.cli.doctor.finding import Finding, ok
from sinks.topics.access import open_reader
from sinks.wire.signing import Verdict, signing_key
from strategies.errors import RebalancerError, SettingsError
from streaming.settings import JobSettings

_CHECK = "signing key"
_NEWEST = 20
_DAY_MS = 86_400_000
_OTHERS = stat.S_IWGRP | stat.S_IRWXO


def check_signing(job: JobSettings, now_ms: int, *, compare: bool = True) -> Finding:
    """One finding: the worst there is to say about the key. `now_ms`: since the epoch; commands of the day before are compared.

    `compare`: False where the topic is known to be unreadable.
    """
    path = job.signing.key_file
    try:
        key = signing_key(job.signing)
    except SettingsError as error:
        return Finding(_CHECK, "fail", error.complaints[0], "correct it where it stands")
    if key is None:
        return ok(_CHECK, "none: commands are not signed, and executors without a key carry out whatever is on topics.commands")
    try:
        newest = _newest(job, now_ms - _DAY_MS) if compare else ()
        found = _compared(path, [key.check(value) for value in newest])
    except RebalancerError as error:
        found = Finding(_CHECK, "warn", f"{path} can be used; commands cannot be read: {error}", "see the finding about topic commands")
    mode = stat.S_IMODE(Path(path).stat().st_mode)
    if found.status == "ok" and mode & _OTHERS:
        return Finding(_CHECK, "warn", f"{found.text}; mode {mode:04o} lets others read or change the key", f"chmod 600 {path}")
    return found


def _newest(job: JobSettings, since_ms: int) -> Sequence[bytes]:
    topic = job.topics.commands
    if topic.scheme == "file" and not topic.folder.is_dir():
        return ()
    newest: deque[bytes] = deque(maxlen=_NEWEST)
    with closing(open_reader(topic, job.access, since_ms=since_ms)) as reader:
        while records := reader.read():
            newest.extend(record.value for record in records if not record.unread)
    return newest


def _compared(path: str, verdicts: Sequence[Verdict]) -> Finding:
    if not verdicts:
        return ok(_CHECK, f"{path} can be used; no commands of the last day to compare it with")
    counts = Counter(verdicts)
    if counts["signed"] == len(verdicts):
        return ok(_CHECK, f"{path} can be used, and signed the newest {len(verdicts)} commands")
    told = ", ".join(f"{counts[verdict]} {words}" for verdict, words in _WORDS.items() if counts[verdict])
    text = f"{path}: of the newest {len(verdicts)} commands {told}"
    if verdicts[-1] == "signed":
        return Finding(_CHECK, "warn", text, "see who else writes to topics.commands; right after a change of the key this passes")
    return Finding(_CHECK, "fail", f"{text}, the newest of all among them", _REMEDIES[verdicts[-1]])


_WORDS: dict[Verdict, str] = {"signed": "are signed with it", "wrong": "are signed with another key", "unsigned": "are not signed"}
_REMEDIES: dict[Verdict, str] = {
    "wrong": "give the job and all executors the same key, and restart the job: executors refuse other commands (wrong-signature)",
    "unsigned": "start the job with this signing.key_file too: executors that have a key refuse other commands (unsigned)",
}
