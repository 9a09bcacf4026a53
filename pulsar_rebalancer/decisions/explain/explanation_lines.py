"""Decisions as sentences: lines about a command, round, broker or bundle."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pulsar_rebalancer.decisions.explain.measured_move_costs import move_costs
from pulsar_rebalancer.decisions.explain.outcome_verdicts import (
    in_short,
    verdict_counts,
    verdict_words,
    why_missing,
)
from pulsar_rebalancer.decisions.explain.subject import ExplainedSubject, Located
from pulsar_rebalancer.decisions.log import DecisionLog
from pulsar_rebalancer.decisions.skip_and_certificate_texts import (
    describe_intent,
    describe_intents,
    describe_skip,
    sentences,
)
from strategies.bundles import hexadecimal
from strategies.cluster.model import Command, Evidence, Round, Skip
from strategies.figures.texts_of_counts_names_and_ages import counted, counted_with, first_of
from strategies.figures.usage_after_moves import (
    changes,
    expected_spread,
    reported_spread,
    reported_usage,
)
from strategies.placement.contract import BEING_DRAINED
from strategies.round.commands_and_record import proof_of
from strategies.round.participating_brokers import ABOUT_POLICIES
from strategies.round.state_of_round import describe_planned_moves

#: Maximum number of bundles that a line names; it counts the others.
_NAMES = 3
_CLOSED_BY = {
    "sweep": "a collection pass was complete",
    "all-reported": "every broker had reported",
    "lateness": "its time limit was reached before every broker had reported",
}


def explain(
    subject: ExplainedSubject, log: DecisionLog, last: int, *, newest_first: bool = False
) -> list[str]:
    """Lines about the subject; of brokers and bundles, only the newest `last` rounds that mention
    them.
    """
    match subject.kind:
        case "command":
            found = next(command for command in log.commands if command.id == subject.name)
            return command_lines(found, log)
        case "round":
            return [
                line
                for one in log.rounds
                if one.round == int(subject.name)
                for line in round_lines(one, log)
            ]
        case "latest":
            newest = [line for one in log.newest_rounds() for line in round_lines(one, log)]
            return [*newest, *cost_lines(log)]
        case "broker" | "bundle":
            lines_of = broker_lines if subject.kind == "broker" else bundle_lines
            about = [(one, lines_of(subject.name, one, log)) for one in log.rounds]
            return [f"{subject.kind} {subject.name}", *_by_round(about, last, newest_first)]


def located_lines(located: Located, last: int, *, newest_first: bool = False) -> list[str]:
    """Lines about a subject that was found, with how it was found and where else it is."""
    subject = located.subject
    note = [subject.note] if subject.note else []
    older = ", ".join(str(epoch) for epoch in located.elsewhere)
    more = [f"epoch {older} also has it; --epoch N shows it"] if older else []
    if located.owner is None:
        return [*note, *explain(subject, located.log, last, newest_first=newest_first), *more]
    owner = ExplainedSubject("broker", located.owner)
    about = explain(owner, located.log, last, newest_first=newest_first)
    return [
        *note,
        f"bundle {subject.name}",
        f"  no round mentions it; it was on {located.owner} when that last reported",
        *about,
    ]


def command_lines(command: Command, log: DecisionLog) -> list[str]:
    """A command's instruction, time, strategy, reason, expected effect and outcomes."""
    decided = log.round_of(command)
    return [
        f"command {command.id} of cluster {command.cluster}, round {command.round}, epoch "
        f"{command.epoch}",
        f"  what: {instruction(command)}",
        f"  when: {when(command.issued_at_ms)}, to be carried out before "
        f"{when(command.expires_at_ms)}",
        f"  who: {command.strategy}{_seen(decided)}",
        f"  why: {command.text} [{command.code}]",
        *_figures(command.evidence),
        *_figures(command.limits or {}, "limits"),
        *expected_usage(command, 0 if decided is None else decided.counted),
        *(f"  {line}" for line in outcome_lines(command, log)),
    ]


def round_lines(done: Round, log: DecisionLog) -> list[str]:
    """A round's input, what it proves, its commands with outcomes, and its skips with reasons."""
    commands, proof = log.commands_of(done), proof_of(done)
    spread = f"spread {points(reported_spread(done))} points"
    if changes(done):
        after = points(expected_spread(done))
        spread += f" before, {after} expected after the commands{counted_with(done.counted)}"
    return [
        f"round {done.round} of cluster {done.cluster}, epoch {done.epoch}, at {when(done.ts)}",
        f"  closed because {_CLOSED_BY[done.closed_by]}; decided by {done.strategy} {done.version}",
        f"  {spread}",
        *([f"  {done.state.line}"] if done.state is not None else []),
        *(f"  {line}" for line in _counting(done)),
        *(f"  {line}" for line in sentences(proof)),
        *(f"  {line}" for line in describe_intents(done.intents)),
        *(f"  {line}" for line in _two_bases(done)),
        *(f"  broker {broker}: {_usage(broker, done)}" for broker in done.brokers),
        *(f"  broker {broker} was left out: {reason}" for broker, reason in done.stale.items()),
        *(line for group in _by_pair(_moves(commands)) for line in _pair_lines(group, log)),
        *(
            f"  command {one.id}: {instruction(one)}, because {one.text}{verdict_words(one, log)}"
            for one in commands
            if one not in _moves(commands)
        ),
        *(f"  command {name}: its record was not found" for name in _missing(done, commands)),
        *(f"  {describe_skip(skip)}" for skip in done.skips if skip not in proof.advice),
    ]


def cost_lines(log: DecisionLog) -> list[str]:
    """The costs of moves for their clients; empty if no executor has measured it."""
    found = move_costs(log.outcomes)
    return ["what moves have cost:", *(f"  {one.line}" for one in found)] if found else []


def broker_lines(broker: str, done: Round, log: DecisionLog) -> list[str]:
    """One round's decisions about a broker and its bundles; empty if the round did not have the
    broker.
    """
    commands = log.commands_of(done)
    asked = [describe_intent(one) for one in done.intents if one.broker == broker]
    if broker in done.stale:
        return [f"was left out: {done.stale[broker]}", *asked]
    if broker not in done.brokers:
        return asked + [
            f"was left out: {skip.text} [{skip.code}]"
            for skip in done.skips
            if skip.subject == "broker" and broker in skip.names
        ]
    moves, others = (
        _moves(commands),
        [one for one in commands if one.source == broker and one not in _moves(commands)],
    )
    gave = [
        f"gives {_goods(group)} to {_destination(group[0])}, because "
        f"{group[0].text}{verdict_counts(group, log)}"
        for group in _by_pair(moves, source=broker)
    ]
    gave += [f"{instruction(one)}, because {one.text}{verdict_words(one, log)}" for one in others]
    took = [
        f"takes {_goods(group)} from {group[0].source}, because "
        f"{group[0].text}{verdict_counts(group, log)}"
        for group in _by_pair(moves, destination=broker)
    ]
    left = [line for skip in done.skips if (line := _about_broker(broker, skip)) is not None]
    decided = [*asked, *gave, *took, *left] or ["no decision about it"]
    return [f"usage {_usage(broker, done)}", *_counting(done), *decided]


def bundle_lines(bundle: str, done: Round, log: DecisionLog) -> list[str]:
    """One round's decisions about a bundle; empty if it does not mention it."""
    moved = [
        line
        for one in log.commands_of(done)
        if one.bundle == bundle
        for line in _bundle_command_lines(one, log)
    ]
    left = [
        f"left alone on {skip.broker or 'its broker'}: {skip.text} "
        f"[{skip.code}]{_resting_since(bundle, skip, done, log)}"
        for skip in done.skips
        if skip.subject == "bundle" and bundle in skip.names
    ]
    about = [
        f"of the whole cluster: {skip.text} [{skip.code}]"
        for skip in done.skips
        if skip.code in ABOUT_POLICIES
    ]
    return [*_counting(done), *moved, *left, *about] if moved or left else []


def _bundle_command_lines(command: Command, log: DecisionLog) -> list[str]:
    outcomes = outcome_lines(command, log) if log.has_outcomes else []
    return [
        f"command {command.id}: {instruction(command)}, because {command.text}",
        *(f"  {line}" for line in outcomes),
    ]


def _resting_since(bundle: str, skip: Skip, done: Round, log: DecisionLog) -> str:
    """The command that started a bundle's cool-down, and its verdict."""
    if skip.code != "cooling-down" or not log.has_outcomes:
        return ""
    earlier = [
        one
        for one in log.commands
        if one.bundle == bundle and one.cluster == done.cluster and one.issued_at_ms < done.ts
    ]
    if not earlier:
        return ""
    return (
        f", since command {earlier[-1].id} of round "
        f"{earlier[-1].round}{verdict_words(earlier[-1], log)}"
    )


def outcome_lines(command: Command, log: DecisionLog) -> list[str]:
    """All outcomes of a command, oldest first, or the reason why there are none."""
    return [f"outcome: {when(one.ts)}: {in_short(one)}" for one in log.outcomes_of(command)] or [
        f"outcome: {why_missing(command, log)}"
    ]


def when(ms: int) -> str:
    """A time of the cluster's clock in UTC, to the second."""
    return formatted(ms, "%Y-%m-%d %H:%M:%S UTC")


def formatted(ms: int, form: str) -> str:
    """A time in UTC; a time after the year 9999, which a record may contain, as its number of
    ms.
    """
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"


def points(fraction: float) -> str:
    """A fraction in percentage points, one decimal."""
    return f"{fraction * 100:.1f}"


def _by_round(
    about: Sequence[tuple[Round, list[str]]], last: int, newest_first: bool
) -> Iterator[str]:
    shown = [(done, lines) for done, lines in about if lines]
    earlier = f"{counted(len(shown) - last, 'earlier round')} not shown"
    if len(shown) > last and not newest_first:
        yield f"  ({earlier}; --last N shows more)"
    for done, lines in shown[-last:][:: -1 if newest_first else 1]:
        yield f"  round {done.round} of {done.cluster}, {when(done.ts)}: {lines[0]}"
        yield from (f"    {line}" for line in lines[1:])
    if len(shown) > last and newest_first:
        yield f"  ({earlier})"


def _moves(commands: Sequence[Command]) -> list[Command]:
    return [one for one in commands if one.is_move]


def _by_pair(
    commands: Sequence[Command], source: str | None = None, destination: str | None = None
) -> list[list[Command]]:
    """Commands grouped by source and destination, which share a reason unless they were asked for;
    optionally only those of one source or destination.
    """
    pairs: dict[tuple[str | None, ...], list[Command]] = {}
    for one in commands:
        if source in (None, one.source) and destination in (None, one.destination):
            by = one.text if "intent" in one.evidence else None
            pairs.setdefault((one.source, one.destination, by), []).append(one)
    return list(pairs.values())


def _pair_lines(group: Sequence[Command], log: DecisionLog) -> Iterator[str]:
    first = group[0]
    gives = (
        f"{first.source} gives {counted(len(group), 'bundle')} to {_destination(first)}, because "
        f"{first.text}"
    )
    yield f"  {gives}{verdict_counts(group, log)}"
    for one in group:
        yield f"    command {one.id}: {one.action} {one.bundle}{verdict_words(one, log)}"


def _goods(group: Sequence[Command]) -> str:
    """The bundle, or the number of bundles with the first names."""
    if len(group) == 1:
        return group[0].bundle
    return f"{len(group)} bundles ({first_of([one.bundle for one in group], _NAMES)})"


def _destination(command: Command) -> str:
    return command.destination or "a broker that Pulsar chooses"


def _about_broker(broker: str, skip: Skip) -> str | None:
    if skip.subject == "cluster":
        return f"of the whole cluster: {skip.text} [{skip.code}]"
    if skip.subject == "broker" and broker in skip.names:
        lead = "" if skip.code == BEING_DRAINED else "left alone: "
        return f"{lead}{skip.text} [{skip.code}]"
    if skip.subject == "bundle" and skip.broker == broker:
        return f"{counted(len(skip.names), 'bundle')} left alone: {skip.text} [{skip.code}]"
    return None


def instruction(command: Command) -> str:
    """The order of a command."""
    if command.action == "split":
        at = f" at {', '.join(map(hexadecimal, command.boundaries))}" if command.boundaries else ""
        return f"split {command.bundle} of {command.source} by {command.algorithm}{at}"
    if command.action == "throttle":
        return f"advice to throttle {command.bundle} of {command.source}"
    to = f" to {command.destination}" if command.destination is not None else ""
    return f"{command.action} {command.bundle} from {command.source}{to}"


def _seen(done: Round | None) -> str:
    if done is None:
        return ", in a round whose record was not found"
    return (
        f", which saw {counted(len(done.brokers), 'broker')} with a spread of "
        f"{points(reported_spread(done))} points"
    )


def _figures(evidence: Evidence, title: str = "with") -> list[str]:
    return (
        [
            f"  {title}: "
            f"{', '.join(f'{name} = {_figure(value)}' for name, value in evidence.items())}"
        ]
        if evidence
        else []
    )


def _figure(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def expected_usage(command: Command, earlier: int = 0) -> list[str]:
    """The usages of both brokers as expected. Empty for a split, which moves no load, and for
    advice, which no executor applies. `earlier`: number of moves of earlier rounds that they count
    as done.
    """
    if not command.is_move:
        return []
    expected = command.expected
    sides = [(command.source, expected.source_before, expected.source_after)]
    if command.destination is not None:
        sides.append((command.destination, expected.destination_before, expected.destination_after))
    return [
        f"  expected{counted_with(earlier)}: {broker} from {points(before)} % to {points(after)} %"
        for broker, before, after in sides
        if before is not None and after is not None
    ]


def _counting(done: Round) -> list[str]:
    """A line about what the reasons of a round count as done."""
    return [f"the reasons below: {describe_planned_moves(done.counted)}"] if done.counted else []


def _two_bases(done: Round) -> list[str]:
    """Explains why the usages that are expected of brokers do not add up to the expected spread, as
    a line: a plan estimates the present load from several samples.
    """
    if points(expected_spread(done)) == points(done.spread_after.range):
        return []
    return ["the expected spread goes by recent samples, the usages below by the newest ones"]


def _usage(broker: str, done: Round) -> str:
    before, after = reported_usage(done).get(broker), done.usage_after.get(broker)
    if before is None:
        return "unknown"
    return (
        f"{points(before)} %"
        if after is None or after == before
        else f"{points(before)} %, {points(after)} % expected"
    )


def _missing(done: Round, commands: Sequence[Command]) -> list[str]:
    known = {command.id for command in commands}
    return [name for name in done.commands if name not in known]
