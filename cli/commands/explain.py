"""`rebalancer explain`: why a command was given, or why a broker, bundle or round was left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import console, options
from cli.explain.history import History, read_history
from cli.explain.sentences import broker_lines, bundle_lines, explain
from cli.explain.subject import Subject, UnknownSubject, find
from sinks.encoding import encode_command, encode_round
from sinks.topics import NO_SECURITY, TopicAccess
from strategies.model import Command, Round

app = typer.Typer()


@app.command("explain")
def explain_command(
    word: Annotated[str, typer.Argument(metavar="SUBJECT", help="A command id, a bundle, a broker (host:port) or a round's number.")],
    *,
    folder: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="Folder that replay --out or demo wrote.")] = None,
    rounds: Annotated[str | None, typer.Option(metavar="SOURCE", help="Rounds: a file, a folder or a topic URI.")] = None,
    commands: Annotated[str | None, typer.Option(metavar="SOURCE", help="Commands: a file, a folder or a topic URI.")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")] = None,
    last: Annotated[int, typer.Option(metavar="N", min=1, help="Of a broker or bundle, show the newest N rounds.")] = 10,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Say why a command was given, or why a broker, bundle or round was left alone.

    Reads the topics that the settings name, or what --from, --rounds and --commands say instead.
    """
    rounds, commands = _sources(folder, rounds, commands, config, overrides)
    whole = read_history(rounds, commands, _access(rounds, commands, config, overrides))
    for line in whole.skipped:
        console.progress(f"warning: {line}")
    history = _of_cluster(whole, cluster)
    subject = find(word, history)
    if as_json:
        console.print_json("explanation", 1, _as_json(subject, history))
        return
    for line in explain(subject, history, last):
        print(line)


def _sources(
    folder: Path | None, rounds: str | None, commands: str | None, config: Path | None, overrides: list[str] | None
) -> tuple[str, str]:
    if folder is not None:
        return rounds or str(folder), commands or str(folder)
    if rounds is not None and commands is not None:
        return rounds, commands
    topics = options.settings(config, overrides).job.topics
    return rounds or topics.rounds, commands or topics.commands


def _access(rounds: str, commands: str, config: Path | None, overrides: list[str] | None) -> TopicAccess:
    """Settings are looked at only where they are needed: files explain themselves."""
    on_servers = any("://" in source and not source.startswith("file:") for source in (rounds, commands))
    return options.settings(config, overrides).job.access if on_servers else NO_SECURITY


def _of_cluster(history: History, cluster: str | None) -> History:
    if cluster is None:
        return history
    if cluster not in history.clusters:
        raise UnknownSubject(f"{cluster}: no such cluster; there are {', '.join(history.clusters) or 'none'}")
    return history.of(cluster)


def _as_json(subject: Subject, history: History) -> dict[str, Any]:
    """The records that mention the subject, as they stand on the topics."""
    rounds = [one for one in history.rounds if _mentions(one, subject, history)]
    commands = [one for one in history.commands if _is_about(one, subject)]
    return {
        "subject": {"kind": subject.kind, "name": subject.name},
        "rounds": [json.loads(encode_round(one)) for one in rounds],
        "commands": [json.loads(encode_command(one)) for one in commands],
    }


def _mentions(done: Round, subject: Subject, history: History) -> bool:
    match subject.kind:
        case "round":
            return done.round == int(subject.name)
        case "command":
            return subject.name in done.commands
        case "broker":
            return bool(broker_lines(subject.name, done, ()))
        case "bundle":
            return bool(bundle_lines(subject.name, done, history.commands_of(done)))


def _is_about(command: Command, subject: Subject) -> bool:
    match subject.kind:
        case "round":
            return command.round == int(subject.name)
        case "command":
            return command.id == subject.name
        case "broker":
            return subject.name in (command.source, command.destination)
        case "bundle":
            return command.bundle == subject.name
