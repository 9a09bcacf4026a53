"""Options shared by several commands."""

import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pulsar_rebalancer.cli import console
from strategies.errors import RebalancerError, SettingsError
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease, read_version

if TYPE_CHECKING:
    from pulsar_rebalancer.settings.merge_sources import Settings

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", envvar="REBALANCER_CONFIG", help="Settings file (TOML)."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one setting, for example --set round.interval_ms=30000. Repeatable.",
    ),
]
#: A recording as JSON Lines, for the commands that read a stream.
JSON_LINES = typer.Argument(
    metavar="RECORDING", help="A .jsonl, .jsonl.gz or .jsonl.zst file; - is standard input."
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
#: A topic instead of the one in the settings.
Topic = Annotated[
    str | None,
    typer.Option(metavar="URI", help="Topic, for example file:///folder; overrides the setting."),
]
#: Who decides something, why, and for which cluster.
REASON = typer.Option("--reason", metavar="TEXT", help="Reason, for the record.")
Why = Annotated[str, REASON]
Who = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Your name; default: your login.")
]
TheCluster = Annotated[
    str | None, typer.Option(metavar="NAME", help="The cluster; default: pulsar.cluster.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether to do what is shown.")]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Do not wait until the bundles have moved.")
]
OnlyCluster = Annotated[str | None, typer.Option(metavar="NAME", help="Only this cluster.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def refuse_existing(target: Path, force: bool) -> None:
    """Raises BadParameter for a file that exists, unless it may be replaced."""
    if target.exists() and not force:
        raise typer.BadParameter(f"{target} exists; --force replaces it", param_hint="FILE")


def settings(config: Path | None, overrides: Sequence[str] | None, *more: str) -> "Settings":
    """Checked settings of a command. `more`: `path=value` of its own flags, which win.
    SettingsError has all complaints.
    """
    from pulsar_rebalancer.settings.merge_sources import load

    return load(config, os.environ, [*(overrides or ()), *more])


def installation(config: Path | None, overrides: Sequence[str] | None, *more: str) -> "Settings":
    """As `settings`, for a command about the topics of an installation: names their source on
    standard error, because with other settings the same command answers about other topics.
    """

    found = settings(config, overrides, *more)
    console.progress(f"settings: {found.source}")
    return found


def nothing_found(what: str, settings: "Settings") -> RebalancerError:
    """The error of a command that found no record at all: most likely of other settings."""
    from pulsar_rebalancer.decisions.explain.subject import UnknownSubject

    step = (
        "Start `rebalancer collect` and then `rebalancer run` with the same topics.* settings; "
        "`rebalancer doctor` checks them."
    )
    if settings.file is None:
        step = f"If the job has a settings file, name it with --config or REBALANCER_CONFIG. {step}"
    return UnknownSubject(
        f"no {what} on {settings.connections.topics.rounds} and the other topics (settings: "
        f"{settings.source}). {step}"
    )


def person_of(by: str | None) -> str:
    """The person who decides something: `by`, otherwise the login of this user. Raises
    SettingsError.
    """
    try:
        return by or getpass.getuser()
    except (KeyError, OSError):
        raise SettingsError(["--by: this user has no login; write your name"]) from None


def named_release(version: str, flag: str) -> PulsarRelease:
    """The release of a version that a flag names, such as 5.0 or 5.0.1. Raises SettingsError for
    one whose rules and defaults are not known.
    """

    read = read_version(version)
    if read is None or not read.exact:
        raise SettingsError(
            [
                f"{flag}: the rules and defaults of Pulsar {version!r} are not known; name "
                f"{' or '.join(RELEASES)}"
            ]
        )
    return read.release


def debug(ctx: typer.Context) -> bool:
    """True if `rebalancer --debug` is set."""
    return bool(ctx.find_root().params.get("debug"))


def flags(**values: object) -> list[str]:
    """`path=value` for every given flag; keyword names have double underscores for the dots of a
    path.
    """
    return [
        f"{path.replace('__', '.')}={value}" for path, value in values.items() if value is not None
    ]
