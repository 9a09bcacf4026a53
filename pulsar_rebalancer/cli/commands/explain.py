"""`rebalancer explain`: why a command was issued and its outcome, or why a broker, bundle or round
has no command.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.decisions.explain.executor_limits import (
    ExecutorLimits,
    LimitsVerdict,
    limits_verdicts,
)
from pulsar_rebalancer.decisions.explain.explanation_lines import (
    broker_lines,
    bundle_lines,
    located_lines,
)
from pulsar_rebalancer.decisions.explain.subject import (
    FORMS,
    LATEST,
    ExplainedSubject,
    Located,
    UnknownSubject,
    locate,
    owners_in,
)
from pulsar_rebalancer.decisions.log import (
    DecisionLog,
    Kind,
    Source,
    is_there,
    read_log,
    source_of,
    with_records,
)
from pulsar_rebalancer.decisions.plans import noted, pauses_of, plans_of
from pulsar_rebalancer.decisions.read_status import pause_of
from pulsar_rebalancer.decisions.skip_and_certificate_texts import sentences
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.executor.settings import admission_rules
from sinks.graceful_stop import wall_clock_ms
from sinks.topics.topic_settings import NO_SECURITY, TopicAccess, TopicUri
from sinks.wire.record_encoding import encode_command, encode_outcome, encode_round
from strategies.cluster.model import Command, Round
from strategies.errors import SinkError
from strategies.round.commands_and_record import proof_of

SourceOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE", help="Where these records are: a file, a folder or a topic URI."
    ),
]
#: Kind of record → its source.
Sources = dict[str, Source]


def explain(
    word: Annotated[
        str, typer.Argument(metavar="[SUBJECT]", help=f"{FORMS[0].upper()}{FORMS[1:]}.")
    ] = LATEST,
    *,
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Folder written by replay --out or demo."),
    ] = None,
    rounds: SourceOption = None,
    commands: SourceOption = None,
    outcomes: SourceOption = None,
    telemetry: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Load reports, for bundles that no round names."),
    ] = None,
    cluster: options.OnlyCluster = None,
    epoch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="This epoch, not the newest one with the subject."),
    ] = None,
    last: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Show the newest N rounds of a broker or bundle."),
    ] = 10,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Explain why a command was issued and its outcome, or why a broker, bundle or round has no
    command.

    Without a SUBJECT, explains the newest round. Reads the topics in the settings, or --from,
    --rounds, --commands and --outcomes instead; --telemetry adds load reports. Of a bundle or
    command, also shows what an executor with the settings would answer now.
    """
    named = {"rounds": rounds, "commands": commands, "outcomes": outcomes, "telemetry": telemetry}
    given = {kind: source_of(text) for kind, text in named.items() if text is not None}
    sources = _sources(given, folder, config, overrides)
    access = _access(sources, config, overrides)
    whole = _read(sources, access, named=given)
    if "approvals" in sources:
        whole = noted(whole, plans_of(whole, wall_clock_ms()))
    console.warn(whole.skipped)
    located = locate(
        word,
        _of_cluster(whole, cluster),
        epoch,
        lambda: owners_in(sources.get("telemetry"), access, cluster),
    )
    verdicts: list[LimitsVerdict] = []
    if located.subject.kind in ("bundle", "command"):
        verdicts = limits_verdicts(
            located, whole, _limits(options.settings(config, overrides), whole)
        )
    if as_json:
        limits = [one.as_object() for one in verdicts]
        console.print_json("explanation", 1, _as_json(located) | {"executor_limits": limits})
    else:
        console.say(*located_lines(located, last), *(f"  {one.line}" for one in verdicts))


def _limits(settings: Settings, log: DecisionLog) -> ExecutorLimits:
    """The limits of an executor with these settings on this machine, now."""
    pause = pause_of(settings.executor)
    if pause.exists is None:
        console.progress(f"warning: the executor may be paused: this user may not see {pause.file}")
    paused_by = {
        name: f"{order.by} ({order.reason})"
        for name, order in pauses_of(log).items()
        if order.paused
    }
    return ExecutorLimits(
        admission_rules(settings.executor),
        wall_clock_ms(),
        pause.exists,
        paused_by,
        settings.executor.approval == "required",
    )


def _sources(
    given: Sources, folder: Path | None, config: Path | None, overrides: list[str] | None
) -> Sources:
    """Fills in missing sources from the folder or, unless rounds and commands are both given, from
    the settings. Approvals are a source only where plans of the settings' topics need them.
    """
    if folder is not None:
        return dict.fromkeys(("rounds", "commands", "outcomes", "telemetry"), folder) | given
    if given.keys() >= {"rounds", "commands"}:
        return given
    settings = options.installation(config, overrides)
    sources: Sources = dict(settings.connections.topics.named())
    if given or settings.executor.approval != "required":
        del sources["approvals"]
    return sources | given


def _access(sources: Sources, config: Path | None, overrides: list[str] | None) -> TopicAccess:
    """Access settings of topics; settings are read only if a source is a topic on a server."""
    on_servers = any(
        isinstance(source, TopicUri) and source.scheme != "file" for source in sources.values()
    )
    return options.settings(config, overrides).connections.access if on_servers else NO_SECURITY


def _read(sources: Sources, access: TopicAccess, *, named: Collection[str]) -> DecisionLog:
    """Reads rounds, commands, outcomes and approvals. The last two are optional, unless their
    source was `named`.
    """
    log = read_log(sources["rounds"], sources["commands"], access)
    optional: tuple[Kind, ...] = ("outcomes", "approvals")
    for kind in optional:
        source = sources.get(kind)
        if source is not None and (kind in named or is_there(kind, source)):
            try:
                log = with_records(log, kind, source, access)
            except SinkError as error:
                if kind in named:
                    raise
                console.progress(f"warning: {kind} are not shown: {error}")
    return log


def _of_cluster(log: DecisionLog, cluster: str | None) -> DecisionLog:
    if cluster is None:
        return log
    if cluster not in log.clusters:
        raise UnknownSubject(
            f"{cluster}: no such cluster; there are {', '.join(log.clusters) or 'none'}"
        )
    return log.of(cluster)


def _as_json(located: Located) -> dict[str, Any]:
    """The records that mention the subject, as on the topics, and what each round proves in
    words.
    """
    subject, log = located.subject, located.log
    if subject.kind == "latest":
        rounds = log.newest_rounds()
        ids = {name for one in rounds for name in one.commands}
        commands = [one for one in log.commands if one.id in ids]
    else:
        rounds = [one for one in log.rounds if _mentions(one, subject, log)]
        commands = [one for one in log.commands if _is_about(one, subject)]
    return {
        "subject": {"kind": subject.kind, "name": subject.name},
        "owner": located.owner,
        "rounds": [json.loads(encode_round(one)) for one in rounds],
        "sentences": [
            {"cluster": one.cluster, "epoch": one.epoch, "round": one.round, "text": said}
            for one in rounds
            if (said := sentences(proof_of(one)))
        ],
        "commands": [json.loads(encode_command(one)) for one in commands],
        "outcomes": [
            json.loads(encode_outcome(answer))
            for one in commands
            for answer in log.outcomes_of(one)
        ],
    }


def _mentions(done: Round, subject: ExplainedSubject, log: DecisionLog) -> bool:
    match subject.kind:
        case "round":
            return done.round == int(subject.name)
        case "command":
            return subject.name in done.commands
        case "broker":
            return bool(broker_lines(subject.name, done, log))
        case _:
            return bool(bundle_lines(subject.name, done, log))


def _is_about(command: Command, subject: ExplainedSubject) -> bool:
    match subject.kind:
        case "round":
            return command.round == int(subject.name)
        case "command":
            return command.id == subject.name
        case "broker":
            return subject.name in (command.source, command.destination)
        case _:
            return command.bundle == subject.name
