"""Resolves the argument of `explain` to a round, command, broker or bundle, from its name or a
related one such as a topic, and looks up the broker that listed a bundle last.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from pulsar_rebalancer.decisions.log import DecisionLog, Source, is_there, values_of
from sinks.topics.topic_settings import TopicAccess
from sinks.wire.record_decoding import decode
from strategies.bundles import (
    bundles_of_topic,
    hexadecimal,
    namespace_and_topic,
    namespace_of,
    parse_bundle,
    topic_hash,
)
from strategies.cluster.model import LoadReport, Owned
from strategies.errors import RebalancerError, WireError
from strategies.figures.texts_of_counts_names_and_ages import first_of

Kind = Literal["latest", "round", "command", "broker", "bundle"]
LATEST = "latest"
#: Accepted forms of the argument, for messages.
FORMS = (
    "a round's number, latest, a command id, a bundle or its range, a broker (host or "
    "host:port) or a topic"
)
_RANGE = re.compile(r"0x[0-9a-fA-F]{1,8}_0x[0-9a-fA-F]{1,8}", re.ASCII)
_ID_BEGINS = 4
_MOST_NAMED = 8
#: Maximum digits of a round's number; Python refuses to parse very long ones.
_LONGEST_NUMBER = 20


class UnknownSubject(RebalancerError):
    """No record mentions what was asked for, or it is ambiguous."""


@dataclass(frozen=True, slots=True)
class ExplainedSubject:
    """`name`: as in the records. `note`: how the argument led to it, if that is not obvious."""

    kind: Kind
    name: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """A subject, and the part of the log that mentions it: one epoch per cluster.

    `elsewhere`: older epochs that mention it too, newest first. `owner`: the broker of a bundle
    that no round mentions.
    """

    subject: ExplainedSubject
    log: DecisionLog
    elsewhere: tuple[int, ...] = ()
    owner: str | None = None


def locate(
    word: str,
    log: DecisionLog,
    epoch: int | None = None,
    owners: Callable[[], Mapping[str, str]] = dict,
) -> Located:
    """Locates the word in the newest epoch that mentions it, or in the given one. Raises
    UnknownSubject.

    `owners`: returns bundle → broker, also for bundles that no round mentions; called only if no
    record mentions the word.
    """
    parts = log.generations() if epoch is None else [log.of_epoch(epoch)]
    # A number is first matched with rounds of all epochs, then with the start of command ids.
    asked = [part for part in parts if _is_round(word, part)] or parts
    if word == LATEST and epoch is None:
        asked = [log.of_newest_rounds()]
    for age, part in enumerate(asked):
        if (subject := meaning(word, part)) is not None:
            older = [other for other in asked[age + 1 :] if _knows(subject, other)]
            epochs = {epoch for other in older for epoch in other.epochs}
            return Located(subject, part, tuple(sorted(epochs, reverse=True)))
    if (
        parts
        and ("/" in word or _RANGE.fullmatch(word))
        and (subject := _bundle(word, known := owners())) is not None
    ):
        return Located(subject, parts[0], owner=known[subject.name])
    raise UnknownSubject(_not_found(word, log, epoch))


def owners_in(source: Source | None, access: TopicAccess, cluster: str | None) -> dict[str, str]:
    """Bundle → the broker that listed it last, by load reports and the collector's notes. Ignores
    records that are not telemetry.
    """
    found: dict[str, str] = {}
    if source is None or not is_there("telemetry", source):
        return found
    for line in values_of("telemetry", source, access):
        with suppress(WireError):
            record = decode(line, b"")
            if cluster not in (None, record.cluster):
                continue
            if isinstance(record, LoadReport) and record.bundles is not None:
                found |= dict.fromkeys(record.bundles.names, record.broker)
            elif isinstance(record, Owned):
                found |= dict.fromkeys(record.bundles, record.broker)
    return found


def _knows(subject: ExplainedSubject, log: DecisionLog) -> bool:
    names: dict[str, Collection[str]] = {
        "round": [str(one.round) for one in log.rounds],
        "broker": _brokers(log),
        "bundle": _bundles(log),
    }
    return subject.name in names.get(subject.kind, ())


def _is_round(word: str, log: DecisionLog) -> bool:
    return (
        word.isdecimal()
        and len(word) <= _LONGEST_NUMBER
        and any(one.round == int(word) for one in log.rounds)
    )


def meaning(word: str, log: DecisionLog) -> ExplainedSubject | None:
    """The subject of a word; None if no record mentions it. Raises UnknownSubject with all
    candidates if it is ambiguous.
    """
    if word == LATEST and log.rounds:
        return ExplainedSubject("latest", LATEST)
    if _is_round(word, log):
        return ExplainedSubject("round", str(int(word)))
    return _command(word, log) or _broker(word, _brokers(log)) or _bundle(word, _bundles(log))


def _command(word: str, log: DecisionLog) -> ExplainedSubject | None:
    ids = (
        [command.id for command in log.commands if command.id.startswith(word)]
        if len(word) >= _ID_BEGINS
        else []
    )
    return ExplainedSubject("command", word) if word in ids else _only("command", word, ids)


def _broker(word: str, known: Iterable[str]) -> ExplainedSubject | None:
    name = re.sub(r"^[a-z+]+://", "", word).rstrip("/")
    if name in known:
        return ExplainedSubject("broker", name)
    return _only(
        "broker",
        word,
        [one for one in known if name.lower() in (one.lower(), one.rpartition(":")[0].lower())],
    )


def _bundle(word: str, known: Iterable[str]) -> ExplainedSubject | None:
    if word in known:
        return ExplainedSubject("bundle", word)
    if _RANGE.fullmatch(word):
        wanted = parse_bundle(f"-/{word}")
        return _only(
            "bundle",
            word,
            [
                one
                for one in known
                if wanted and (parsed := parse_bundle(one)) and parsed[1] == wanted[1]
            ],
        )
    if (wanted := parse_bundle(word)) is not None:
        return _only("bundle", word, [one for one in known if parse_bundle(one) == wanted])
    if "://" not in word and (inside := [one for one in known if namespace_of(one) == word]):
        return _only("bundle", word, inside)
    return _of_topic(word, known)


def _of_topic(word: str, known: Iterable[str]) -> ExplainedSubject | None:
    """The narrowest bundle that holds the topic."""
    named = namespace_and_topic(word)
    holds = [] if named is None else bundles_of_topic(*named, known)
    if named is None or not holds:
        return None
    name, topic = holds[0], named[1]
    whole = (
        ""
        if "-partition-" in topic
        else f"; if it is partitioned, name a partition: {topic}-partition-0"
    )
    return ExplainedSubject(
        "bundle",
        name,
        f"{topic} has the hash {hexadecimal(topic_hash(topic))}, which is in {name}{whole}",
    )


def _only(kind: Kind, word: str, candidates: list[str]) -> ExplainedSubject | None:
    """The only candidate, or None. Raises UnknownSubject with all of them if there are several."""
    if len(candidates) > 1:
        named = first_of(candidates, _MOST_NAMED)
        raise UnknownSubject(
            f"{word} matches {len(candidates)} {kind}s: {named}; name one of them."
        )
    return ExplainedSubject(kind, candidates[0]) if candidates else None


def _not_found(word: str, log: DecisionLog, epoch: int | None) -> str:
    """One sentence with the records searched, the accepted forms and the next step."""
    searched = log if epoch is None else log.of_epoch(epoch)
    if not log.rounds and not log.commands:
        return (
            f"{word}: no rounds and no commands yet; start the job (rebalancer run), or name the "
            "folder of a replay with --from."
        )
    if not searched.rounds and not searched.commands:
        return f"{word}: no epoch {epoch}; name one of {_listed(log.epochs)} with --epoch."
    if word == LATEST:
        return (
            f"{word}: no rounds of epoch {_listed(searched.epochs)}, only "
            f"{len(searched.commands)} commands; name one of them."
        )
    known = [
        *_brokers(searched),
        *_bundles(searched),
        *(command.id for command in searched.commands),
    ]
    close = get_close_matches(word, known, n=3, cutoff=0.6)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    unnamed = (
        ""
        if "/" not in word
        else " or the broker that serves it, because rounds name only bundles that they judged "
        "individually"
    )
    return f"{word}: {_searched(searched)} do not mention it{hint}; name {FORMS}{unnamed}."


def _searched(log: DecisionLog) -> str:
    numbers = [one.round for one in log.rounds]
    rounds = f"{len(numbers)} rounds ({min(numbers)} to {max(numbers)})" if numbers else "0 rounds"
    return f"{rounds} and {len(log.commands)} commands of epoch {_listed(log.epochs)}"


def _listed(epochs: Sequence[int]) -> str:
    return ", ".join(str(epoch) for epoch in epochs)


def _brokers(log: DecisionLog) -> dict[str, None]:
    """Brokers of rounds, including those that a round left out, and of commands."""
    moved = (
        name for one in log.commands for name in (one.source, one.destination) if name is not None
    )
    return dict.fromkeys(
        [
            *(broker for one in log.rounds for broker in (*one.brokers, *one.stale)),
            *_skipped(log, "broker"),
            *moved,
        ]
    )


def _bundles(log: DecisionLog) -> dict[str, None]:
    return dict.fromkeys([*(command.bundle for command in log.commands), *_skipped(log, "bundle")])


def _skipped(log: DecisionLog, subject: str) -> Iterator[str]:
    return (
        name
        for one in log.rounds
        for skip in one.skips
        if skip.subject == subject
        for name in skip.names
    )
