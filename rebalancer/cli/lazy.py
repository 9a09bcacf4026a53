"""A command group that knows its commands' names and sentences, and imports a command's module only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from rebalancer.cli.errors import reported

#: Command name → the sentence `--help` shows; the module is `rebalancer.cli.commands.<name>` and holds a typer application `app`.
COMMANDS: Mapping[str, str] = {
    "demo": "Watch a skewed cluster being balanced on this machine, no server needed.",
    "run": "Run the streaming job: telemetry in, commands out, until it is stopped.",
    "collect": "Ask the brokers of a Pulsar cluster for their load, pass after pass.",
    "execute": "Carry out commands on a Pulsar cluster; without --apply, say what would be done.",
    "replay": "Decide on a recording, or on records piped in, and show or keep the decisions.",
    "simulate": "Try strategies on modelled clusters in virtual time, the published experiments among them.",
    "record": "Copy a topic into a recording.",
    "convert": "Make a columnar recording (Parquet) from JSON Lines, for back-tests.",
    "trace": "Make a trace of load from a recording, for scenarios of simulate to follow.",
    "backtest": "See what strategies would have decided on a recording, and what would have come of it.",
    "tune": "Search settings on a recording: how even, at what cost, and is it better than now?",
    "state": "Show what a checkpoint remembers about every broker.",
    "explain": "Say why a command was given, or why a broker, bundle or round was left alone.",
    "shadow": "Compare our decisions with the moves that Pulsar's own shedder made meanwhile.",
    "conformance": "Compare decisions with those of Pulsar's own classes.",
    "topics": "Make the topics on Kafka and Pulsar that the settings name.",
    "jars": "Fetch the jars that Spark needs for Kafka topics.",
    "ship": "Pack the Python packages that Spark's workers elsewhere need.",
    "config": "Show or check settings, or print their JSON Schema.",
    "doctor": "Check what the job needs on this machine.",
}

#: Options that typer gives to every application by itself.
_ONLY_AT_THE_TOP = frozenset({"install_completion", "show_completion"})


def load(name: str) -> Any:
    """The real command behind `name`; imports its module."""
    command = get_command(importlib.import_module(f"rebalancer.cli.commands.{name}").app)
    command.name = name
    command.help = command.help or COMMANDS[name]
    command.params = [param for param in command.params if param.name not in _ONLY_AT_THE_TOP]
    for part in (command, *getattr(command, "commands", {}).values()):
        part.rich_markup_mode = None
    return command


class LazyGroup(TyperGroup):
    """Lists placeholders; a placeholder becomes the real command at the moment it is resolved."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, sentence in COMMANDS.items():
            self.add_command(TyperCommand(name, help=sentence, short_help=sentence), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, placeholder, rest = super().resolve_command(ctx, args)
        return name, load(name) if name is not None and placeholder is not None else placeholder, rest

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with reported(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)
