"""Scenario files: a story, one line per broker, what happens in which round; below a line of dashes
what the engine prints.

    Two sentences of what this is about.

    strategy avg fixed
    set max_unload 0.5
    limits moves_per_round 1
    policies {"brokers": {"idle-1": {"draining": true}}}
    hot-1   carries 3000 2500 2000   of 10000
    idle-1  carries 200              of 10000
    idle-2  carries nothing          of 10000
    at 3 idle-1 does not answer
    at 4 nobody executes
    at 5 the executor is dry
    at 5 hot-1a carries 4000
    in odd rounds hot-1b carries 3000
    at 6 other processes take 20 % of hot-1
    at 7 idle-2 joins
    at 8 a script moves hot-1a to idle-1
    at 8 Ann drains hot-1
    at 9 Ann undrains hot-1
    rounds 20
    show 2 7-9
    ----

A broker's figures are messages/s per bundle (in + out) and the messages/s at which its CPU is full;
its bundles are named after it with a letter each. `limits`, `filters`, `splitting`, `throttling`,
`rivals`, `placement`, `drains` and `round` set one setting of that table each; `policies` is the
snapshot that the log begins with. What changes stays so until a later line changes it. Rounds are a
minute apart. Commands are carried out between rounds, unless told otherwise. `show` names the
rounds that are printed, without it all are; of the others, the print-out has the number of
commands. Below the usages are the sentences with which `explain` says what a round proves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_lowercase

from pulsar_rebalancer.decisions.skip_and_certificate_texts import (
    describe_intent,
    describe_skip,
    sentences,
)
from pulsar_rebalancer.lab.replay.decisions import describe_command, describe_round
from pulsar_rebalancer.lab.simulation.clock import PERIOD_S
from pulsar_rebalancer.lab.simulation.executor_and_outage_model import REACTION_S
from pulsar_rebalancer.lab.simulation.noise import Wobble
from pulsar_rebalancer.lab.simulation.polled_cluster import (
    EngineDecider,
    PolledCluster,
    RoundAnswer,
    outcome_reports,
)
from pulsar_rebalancer.lab.simulation.scenarios.schema import Machine
from pulsar_rebalancer.settings.merge_sources import load
from strategies.cluster.intent_records_and_states import Intent, IntentAction
from strategies.cluster.model import Command, Outcome, Policies
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.engine import EngineSettings
from strategies.round.commands_and_record import proof_of
from tests.modelled import carry, steady_cluster

RULER = "----"
TABLES = ["limits", "filters", "splitting", "throttling", "rivals", "placement", "drains", "round"]
#: All bundles are in this namespace, which is left out of what is printed.
NAMESPACE = "story/bundles/"
#: Figures that do not change at all are no new sample, so traffic wanders by a hundredth of a
#: percent.
WOBBLE = Wobble(traffic_part=0.0001, cpu_part=0.0)


@dataclass
class Scenario:
    """A scenario as it was read; the lists grow line by line."""

    strategy: str = "avg"
    mode: str = "fixed"
    overrides: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    policies: str | None = None
    message_bytes: float = 1024.0
    brokers: dict[str, Machine] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    #: Round, `odd` or `even` → what happens before its pass, as words.
    events: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    rounds: int = 3
    shown: set[int] = field(default_factory=set)


def read_scenario(text: str) -> Scenario:
    """Raises ValueError with the line it does not understand."""
    _story, _, setup = text.partition("\n\n")
    scenario = Scenario()
    for line in setup.splitlines():
        words = line.split()
        if not any(read(words, scenario) for read in (_read_round, _read_event, _read_line)):
            raise _not_understood(line)
    return scenario


def _not_understood(line: str) -> ValueError:
    return ValueError(
        f"not understood: {line!r}; tests/golden/scenario.py shows what may stand in a scenario"
    )


def play(scenario: Scenario) -> Iterator[str]:
    """What the engine prints: per round its record, usage per broker, commands, and what was left
    alone.
    """
    cluster = _cluster(scenario)
    decider, outcomes = EngineDecider(_settings(scenario)), tuple[Outcome, ...]()
    policies = (
        []
        if scenario.policies is None
        else [Policies(cluster.name, cluster.start_ms, scenario.policies)]
    )
    hidden = list[RoundAnswer]()
    for number in range(1, scenario.rounds + 1):
        given = _happen(scenario, cluster, number)
        seen = cluster.collect(given.silent)
        asked = [replace(one, ts=seen[0].ts) for one in given.intents]
        first = policies if number == 1 else []
        answer = decider.decide([*first, *outcome_reports(outcomes), *asked, *seen])
        if scenario.shown and number not in scenario.shown:
            hidden.append(answer)
        else:
            yield from _print_hidden(hidden)
            yield from (line.replace(NAMESPACE, "") for line in _print(answer))
            hidden.clear()
        if given.executor == "dry":
            outcomes = tuple(_dry(command, answer.round.ts) for command in answer.commands)
        else:
            commands = answer.commands if given.executor == "works" else ()
            outcomes = cluster.carry_out(commands, answer.round.ts)
    yield from _print_hidden(hidden)


@dataclass
class Pass:
    """What a round is given besides its reports; `executor`: works, dry or idle."""

    silent: set[str] = field(default_factory=set)
    intents: list[Intent] = field(default_factory=list)
    executor: str = "works"


def _happen(scenario: Scenario, cluster: PolledCluster, number: int) -> Pass:
    """What changes before the pass of this round."""
    found, events = Pass(), scenario.events
    for words in [*events.get(f"{number}", []), *events.get("odd" if number % 2 else "even", [])]:
        match words:
            case ["nobody", "executes"]:
                found.executor = "idle"
            case ["the", "executor", "is", "dry"]:
                found.executor = "dry"
            case [broker, "does", "not", "answer"]:
                found.silent.add(broker)
            case [person, "drains" | "undrains" as wish, broker]:
                action: IntentAction = "drain" if wish == "drains" else "undrain"
                id_ = f"{number:030x}{len(found.intents):02x}"
                found.intents.append(
                    Intent(cluster.name, 0, id_, action, person, "upgrade", broker)
                )
            case _:
                _change(cluster, number, words)
    return found


def _change(cluster: PolledCluster, number: int, words: Sequence[str]) -> None:
    world, names = cluster.world, cluster.world.fleet.names
    match words:
        case [broker, "joins"]:
            world.present[names.index(broker)] = True
        case [bundle, "carries", rate]:
            carry(cluster, NAMESPACE + bundle, float(rate) / 2)
        case ["other", "processes", "take", percent, "%", "of", broker]:
            world.foreign[names.index(broker)] = float(percent)
        case ["a", "script", "moves", bundle, "to", broker]:
            now_s = (number - 1) * PERIOD_S
            row = world.names.index(NAMESPACE + bundle)
            world.move(row, names.index(broker), now_s, now_s)
        case _:
            raise _not_understood(" ".join(words))


def _dry(command: Command, now_ms: int) -> Outcome:
    ts = now_ms + int(REACTION_S * 1000)
    return Outcome(
        command.id, command.cluster, command.bundle, "dry-run", None, command.source, None, 0, ts
    )


def split_file(path: Path) -> tuple[str, str]:
    """The scenario and the expected print-out of a file."""
    head, _, tail = path.read_text(encoding="utf-8").partition(f"{RULER}\n")
    return head, tail


def join_file(path: Path, head: str, printed: str) -> None:
    """Writes both parts of a file."""
    path.write_text(f"{head}{RULER}\n{printed}", encoding="utf-8")


def _read_round(words: Sequence[str], scenario: Scenario) -> bool:
    """What every round respects, whatever the strategy."""
    match words:
        case [table, key, *value] if table in TABLES:
            scenario.flags.append(f"{table}.{key}={' '.join(value)}")
        case ["policies", *snapshot]:
            scenario.policies = " ".join(snapshot)
        case _:
            return False
    return True


def _read_line(words: Sequence[str], scenario: Scenario) -> bool:
    match words:
        case ["strategy", name, mode]:
            scenario.strategy, scenario.mode = name, mode
        case ["set", key, value]:
            scenario.overrides[key] = value
        case ["messages", "of", size, "bytes"]:
            scenario.message_bytes = float(size)
        case ["rounds", count]:
            scenario.rounds = int(count)
        case ["show", *ranges]:
            for first, _, last in (one.partition("-") for one in ranges):
                scenario.shown.update(range(int(first), int(last or first) + 1))
        case [broker, "carries", "nothing", "of", capacity]:
            _add_broker(scenario, broker, [], float(capacity))
        case [broker, "carries", *rates, "of", capacity]:
            _add_broker(scenario, broker, [float(rate) for rate in rates], float(capacity))
        case _:
            return not words
    return True


def _read_event(words: Sequence[str], scenario: Scenario) -> bool:
    """What happens in one round, or in every other one."""
    match words:
        case ["at", number, *event] | ["in", "odd" | "even" as number, "rounds", *event]:
            scenario.events.setdefault(number, []).append(event)
        case _:
            return False
    return True


def _add_broker(scenario: Scenario, name: str, rates: Sequence[float], capacity: float) -> None:
    scenario.brokers[name] = Machine(
        cores=1, cpu_idle=0, cpu_per_kmsg=100_000 / capacity, direct_memory_per_mib=4.194304
    )
    for letter, rate in zip(ascii_lowercase, rates, strict=False):
        scenario.rates[f"{NAMESPACE}{name}{letter}"] = rate / 2
        scenario.owners[f"{NAMESPACE}{name}{letter}"] = name


def _cluster(scenario: Scenario) -> PolledCluster:
    cluster = steady_cluster(
        "golden",
        scenario.brokers,
        scenario.rates,
        scenario.owners,
        chance=replace(WOBBLE),
        message_bytes=scenario.message_bytes,
        start_ms=0,
    )
    for broker, *event in (words for events in scenario.events.values() for words in events):
        if event == ["joins"]:
            cluster.world.present[cluster.world.fleet.names.index(broker)] = False
    return cluster


def _settings(scenario: Scenario) -> EngineSettings:
    rules = {
        f"shedding.{scenario.strategy}.{key}": value for key, value in scenario.overrides.items()
    }
    named = {"shedding.strategy": scenario.strategy, "shedding.mode": scenario.mode, **rules}
    return load(
        flags=[*(f"{path}={value}" for path, value in named.items()), *scenario.flags]
    ).engine


def _print_hidden(hidden: Sequence[RoundAnswer]) -> Iterator[str]:
    if hidden:
        first, last = hidden[0].round.round, hidden[-1].round.round
        rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
        yield f"{rounds}: {counted(sum(len(one.commands) for one in hidden), 'command')}"


def _print(answer: RoundAnswer) -> Iterator[str]:
    proof = proof_of(answer.round)
    yield describe_round(answer.round)
    yield "  usage " + " · ".join(
        f"{broker} {100 * usage:.1f} %" for broker, usage in answer.round.usage.items()
    )
    assert answer.round.state is not None
    yield f"  {answer.round.state.line}"
    for line in sentences(proof):
        yield f"  {line}"
    for status in answer.round.intents:
        yield f"  {describe_intent(status)}"
    for broker, reason in answer.round.stale.items():
        yield f"  stale {broker}: {reason}"
    for command in answer.commands:
        yield f"  {describe_command(command)}"
    for skip in answer.round.skips:
        if skip not in proof.advice:
            yield f"  {describe_skip(skip)}"
