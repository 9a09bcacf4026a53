"""Checks of the keys that sign commands, approvals and intents: whether they are usable, who else
may read their files, and for commands whether the newest ones are signed with theirs; and of the
period in which the token is valid: a JWT states it, an opaque token does not.
"""

import base64
import json
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate, ok
from sinks.executor.settings import ExecutorSettings, check_approval
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.secret_file import read_secret
from sinks.topics.open_topics import records_of
from sinks.topics.topic_settings import Connections
from sinks.wire.signing_keys import (
    SigningKey,
    SigningSettings,
    Verdict,
    approvals_key,
    intents_key,
    signing_key,
)
from strategies.errors import RebalancerError, SettingsError
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.settings import RoundSettings

#: A person who has less time rarely sees a plan before it expires.
SHORT_MS = 600_000
_SIGNING, _TOKEN = "signing key", "token expiry"
_CORRECT = "correct that setting"
#: Newest commands whose signatures are checked.
_NEWEST = 20
_Signed = Verdict | Literal["previous"]


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
    "wrong": "give the job and all executors the same key, and restart the job: executors refuse "
    "other commands (wrong-signature)",
    "unsigned": "start the job with this signing.key_file too: executors with a key refuse "
    "unsigned commands (unsigned)",
}
_WEEK_S, _FOREVER_S = 7 * 86_400, 1e15
_RENEW = (
    "write a new token into the file pulsar.token_file; the file is read again for every "
    "call, so no restart is needed"
)


def check_approvals(
    executor: ExecutorSettings, signing: SigningSettings, rounds: RoundSettings
) -> Iterator[Finding]:
    """The most severe finding about the key, and the time that people have to approve; none if
    neither a key nor an approval is asked for.
    """
    required = executor.approval == "required"
    if not required and not signing.approvals_key_file:
        return
    try:
        check_approval(executor, approvals_key(signing))
    except SettingsError as error:
        yield Finding("approvals", "fail", error.complaints[0], _CORRECT)
        return
    path, previous = signing.approvals_key_file, signing.previous_approvals_key_file
    waits = "plans wait for approval" if required else "not required"
    expire, rest = age(rounds.command_ttl_ms), age(rounds.cool_down_ms)
    yield evaluate(
        "approvals",
        f"{waits}; {path} is usable"
        + _and_previous(previous, "signing.previous_approvals_key_file"),
        *_open_to_others((path, previous), ", so they can approve"),
        Rule(
            required and rounds.command_ttl_ms < SHORT_MS,
            "warn",
            f"required, and commands expire after {expire}: people have this time to approve a "
            "plan",
            "raise round.command_ttl_ms of the job, for example to 1800000 (30 min)",
        ),
        Rule(
            required and rounds.cool_down_ms <= rounds.command_ttl_ms,
            "warn",
            f"a bundle rests for {rest} from its command on, and its command may be approved for "
            f"{expire}: it may not rest at all",
            "raise round.cool_down_ms of the job above round.command_ttl_ms",
        ),
    )


def check_intents(signing: SigningSettings) -> Iterator[Finding]:
    """The most severe finding about the key of drains and rolls; none without a key."""
    if not signing.intents_key_file:
        return
    try:
        intents_key(signing)
    except SettingsError as error:
        yield Finding("intents key", "fail", error.complaints[0], _CORRECT)
        return
    path, previous = signing.intents_key_file, signing.previous_intents_key_file
    yield evaluate(
        "intents key",
        f"{path} is usable: the job refuses drains and rolls without it"
        + _and_previous(previous, "signing.previous_intents_key_file"),
        *_open_to_others((path, previous), ", so they can drain brokers"),
    )


def check_signing(connections: Connections, now_ms: int, *, compare: bool = True) -> Finding:
    """The most severe finding about the key of commands. `now_ms`: since the epoch; commands of
    the last day are compared.

    `compare`: False where the topic is known to be unreadable.
    """
    path = connections.signing.key_file
    try:
        key = signing_key(connections.signing)
    except SettingsError as error:
        return Finding(_SIGNING, "fail", error.complaints[0], _CORRECT)
    if key is None:
        return ok(
            _SIGNING,
            "none: commands are not signed, and executors without a key apply every command "
            "on topics.commands",
        )
    try:
        newest = _newest(connections, now_ms - 86_400_000) if compare else ()
        found = _compared(path, [_verdict(key, value) for value in newest])
    except RebalancerError as error:
        return Finding(
            _SIGNING,
            "warn",
            f"{path} is usable; commands cannot be read: {error}",
            "see the finding about topic commands",
        )
    if found.status != "ok":
        return found
    files = (path, connections.signing.previous_key_file)
    return evaluate(_SIGNING, found.text, *_open_to_others(files, "", f"{found.text};"))


def _open_to_others(files: Iterable[str], harm: str, begin: str = "") -> Iterator[Rule]:
    """A rule about each of these files that others may read or change; empty names are left out.
    `begin`: of the text, otherwise the file.
    """
    for file in filter(None, files):
        mode = stat.S_IMODE(Path(file).stat().st_mode)
        text = f"{begin or f'{file}:'} mode {mode:04o} lets others read or change the key{harm}"
        yield Rule(bool(mode & (stat.S_IWGRP | stat.S_IRWXO)), "warn", text, f"chmod 600 {file}")


def _and_previous(previous: str, setting: str) -> str:
    """The end of a sentence about a usable key; empty without a previous one."""
    return f"; the previous one is accepted too: remove {setting} after the change" * bool(previous)


def _verdict(key: SigningKey, value: bytes) -> _Signed:
    """By which of the keys, or as SigningKey says."""
    verdict = key.check(value)
    if verdict == "signed" and key.current.check(value) != "signed":
        return "previous"
    return verdict


def _newest(connections: Connections, since_ms: int) -> Sequence[bytes]:
    records = records_of(connections.topics.commands, connections.access, since_ms)
    return deque((one.value for one in records if not one.unread), maxlen=_NEWEST)


def _compared(path: str, verdicts: Sequence[_Signed]) -> Finding:
    if not verdicts:
        return ok(
            _SIGNING, f"{path} is usable; there are no commands of the last day to compare with"
        )
    counts, last = Counter(verdicts), verdicts[-1]
    if counts["signed"] == len(verdicts):
        return ok(_SIGNING, f"{path} is usable and signed the newest {len(verdicts)} commands")
    parts = ", ".join(
        f"{counts[verdict]} {words}" for verdict, words in _WORDS.items() if counts[verdict]
    )
    text = f"{path}: of the newest {len(verdicts)} commands {parts}"
    if last not in _NEXT_STEPS:
        return Finding(_SIGNING, "fail", f"{text}, including the newest", _REMEDIES[last])
    return evaluate(
        _SIGNING,
        f"{text}; {_NEXT_STEPS[last]}",
        Rule(
            counts["signed"] + counts["previous"] < len(verdicts),
            "warn",
            text,
            "find the program that writes to topics.commands; right after a change of the "
            "key, this is normal",
        ),
    )


def check_expiry(settings: PulsarSettings, now_s: float) -> list[Finding]:
    """Warns a week before expiry, or at the last fifth of a shorter validity. `now_s`: since the
    epoch. Empty if no token is set.

    Reads the claims `exp`, `nbf` and `iat` of RFC 7519 and does not check the signature.
    """
    if not settings.token_file:
        return []
    try:
        claims = _claims(read_secret(settings.token_file, "pulsar.token_file").reveal())
    except SettingsError as error:
        return [
            Finding(
                _TOKEN,
                "fail",
                error.complaints[0],
                "set pulsar.token_file to the file with the token",
            )
        ]
    return [ok(_TOKEN, "the token states no expiry") if claims is None else _period(claims, now_s)]


def _period(claims: Mapping[str, Any], now_s: float) -> Finding:
    end, begin, made = (_number(claims.get(name)) for name in ("exp", "nbf", "iat"))
    text, left_s, early_s = "the token never expires", _FOREVER_S, float(_WEEK_S)
    if end is not None:
        left_s = end - now_s
        text = f"the token expires in {_span(left_s)}"
        if made is not None:
            early_s = min(_WEEK_S, (end - made) / 5)
    waits_s = (begin or now_s) - now_s
    return evaluate(
        _TOKEN,
        text,
        Rule(left_s <= 0, "fail", f"the token expired {_span(-left_s)} ago", _RENEW),
        Rule(
            waits_s > 0,
            "fail",
            f"the token is not valid before {_span(waits_s)} from now",
            "wait, or check the clocks",
        ),
        Rule(end is None and "exp" in claims, "warn", "the token's exp is not a number", _RENEW),
        Rule(left_s < early_s, "warn", text, _RENEW),
    )


def _claims(token: bytes) -> Mapping[str, Any] | None:
    """The claims of a JWT; None for any other text."""
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float | None:
    """A NumericDate as float, clipped, because an integer may exceed the largest float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return float(min(max(value, -1e15), 1e15))


def _span(seconds: float) -> str:
    return age(int(seconds * 1000))
