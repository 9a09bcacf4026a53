"""Entry point of `rebalancer`: global options, and the list of commands with their help. A
command's module is imported only when the command is called.
"""

import importlib
import sys
from collections.abc import Mapping
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from pulsar_rebalancer.cli.errors import code_of, leave, reported

#: Command name → its line in `--help`.
COMMANDS: Mapping[str, str] = {
    "demo": "Balance a simulated cluster on this machine, without servers.",
    "watch": "Watch a cluster on a live page: what would be moved, and why. Changes nothing.",
    "run": "Run the streaming job: read telemetry, publish commands.",
    "collect": "Collect load reports of a Pulsar cluster at regular intervals.",
    "execute": "Apply commands to a Pulsar cluster; without --apply, a dry run.",
    "notify": "Send notices to a webhook about lasting changes of the clusters.",
    "serve": "Serve the live page: state, usage, moves, plans and reasons of each cluster.",
    "replay": "Compute decisions for a recording or piped records; print or store them.",
    "simulate": "Run strategies on modelled clusters in virtual time, "
    "including published experiments.",
    "record": "Copy a topic into a recording.",
    "convert": "Convert a JSON Lines recording to Parquet for back-tests.",
    "trace": "Extract a trace of load from a recording, for scenarios of simulate.",
    "backtest": "Test strategies on a recording: their decisions and the resulting load.",
    "upgrade-preview": "Show on a recording what an upgrade of Pulsar would change.",
    "tune": "Search for better settings on a recording.",
    "advise": "Advise on brokers, bundles and partitions that a cluster needs.",
    "state": "Show the state of each broker in a checkpoint, or repartition it.",
    "status": "Show the state of each cluster, and what to do.",
    "top": "Show the fullest brokers and the hottest bundles now.",
    "plans": "Show, approve and deny plans; pause and resume an executor.",
    "move": "Move a bundle by hand.",
    "unload": "Move a bundle, or all of a namespace, away from where they are.",
    "split": "Split a bundle by hand.",
    "undo": "Move the bundles of a round back to where they were.",
    "pause": "Pause the executor of a cluster.",
    "resume": "Resume a paused executor.",
    "drain": "Move all bundles off a broker, and keep it empty.",
    "undrain": "End a drain: the broker may take bundles again.",
    "roll": "Restart brokers one after another: drain, restart, wait; the leader last.",
    "intents": "Show drains, moves, splits and rolls: state, progress, and what is in the way.",
    "explain": "Explain a command, or why a broker, bundle or round has none.",
    "export": "Export usage, moves, plans or outcomes as CSV or Parquet.",
    "shadow": "Compare our decisions with the moves of Pulsar's own shedder.",
    "conformance": "Compare decisions with those of Pulsar's own classes.",
    "topics": "Create the topics of the settings on Kafka and Pulsar.",
    "jars": "Download the jars that Spark needs for Kafka topics.",
    "ship": "Pack what remote Spark workers need, or the job for spark-submit.",
    "config": "Show or check settings, or print their JSON Schema.",
    "doctor": "Check the requirements and the health of the job.",
}

#: Command name → its module, where that is not `pulsar_rebalancer.cli.commands.<name>`; after a
#: colon its function, where several are there. As text: these rooms import the command line, not
#: the reverse.
ELSEWHERE: Mapping[str, str] = {
    "convert": "pulsar_rebalancer.cli.commands.record:convert",
    "drain": "pulsar_rebalancer.cli.commands.intents:drain",
    "undrain": "pulsar_rebalancer.cli.commands.intents:undrain",
    "unload": "pulsar_rebalancer.cli.commands.move:unload",
    "pause": "pulsar_rebalancer.cli.commands.plans:pause_command",
    "resume": "pulsar_rebalancer.cli.commands.plans:resume_command",
    "doctor": "pulsar_rebalancer.doctor.command",
    "watch": "pulsar_rebalancer.watch.command",
    "demo": "pulsar_rebalancer.lab.command_options.demo",
    "replay": "pulsar_rebalancer.lab.command_options.replay",
    "simulate": "pulsar_rebalancer.lab.command_options.simulate",
    "trace": "pulsar_rebalancer.lab.command_options.trace",
    "backtest": "pulsar_rebalancer.lab.command_options.backtest",
    "upgrade-preview": "pulsar_rebalancer.lab.command_options.upgrade_preview",
    "tune": "pulsar_rebalancer.lab.command_options.tune",
    "advise": "pulsar_rebalancer.lab.command_options.advise",
    "shadow": "pulsar_rebalancer.lab.command_options.shadow",
    "conformance": "pulsar_rebalancer.lab.command_options.conformance",
}


def load(name: str) -> Any:
    """Imports the module of a command and returns the command: its typer application `app` if it
    has commands of its own, otherwise the function with its name.
    """
    place = ELSEWHERE.get(name, f"pulsar_rebalancer.cli.commands.{name}")
    module, _, function = place.partition(":")
    loaded = importlib.import_module(module)
    app = None if function else getattr(loaded, "app", None)
    if app is None:
        app = typer.Typer()
        app.command()(getattr(loaded, function or name.replace("-", "_")))
    command = get_command(app)
    command.name = name
    command.help = command.help or COMMANDS[name]
    # Typer adds these to every application.
    only_at_the_top = ("install_completion", "show_completion")
    command.params = [param for param in command.params if param.name not in only_at_the_top]
    for part in (command, *getattr(command, "commands", {}).values()):
        part.rich_markup_mode = None
    return command


def laboratory(module: str) -> Any:
    """A module of the laboratory, for a command that is called to use it. Nothing else outside
    imports one. Raises ModuleNotFoundError where the laboratory is not installed.
    """
    return importlib.import_module(f"pulsar_rebalancer.lab.{module}")


class LazyGroup(TyperGroup):
    """Lists placeholders; a placeholder is replaced by its command when it is resolved."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, sentence in COMMANDS.items():
            self.add_command(TyperCommand(name, help=sentence, short_help=sentence), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, placeholder, rest = super().resolve_command(ctx, args)
        return (
            name,
            load(name) if name is not None and placeholder is not None else placeholder,
            rest,
        )

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with reported(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


app = typer.Typer(
    cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True
)


def _version(wanted: bool) -> None:
    if wanted:
        from strategies.settings import VERSION

        typer.echo(f"rebalancer {VERSION}")
        raise typer.Exit()


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Print a stack trace for errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Moves bundles between Pulsar brokers so that no broker is overloaded while others are idle.

    Data goes to standard output, progress to standard error. Exit codes: 0 fine, 1 error, 2 usage
    or settings, 3 imbalance found, 5 decisions differ, 6 nothing asked, 130 interrupted, 143 ended
    by SIGTERM before it was done.
    """


def main() -> None:
    """Runs the command line and exits. Characters that a terminal cannot show are escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="rebalancer")
    except SystemExit as end:
        leave(code_of(end))


if __name__ == "__main__":
    main()
