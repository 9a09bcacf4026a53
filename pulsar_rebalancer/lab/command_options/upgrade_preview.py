"""`rebalancer upgrade-preview`: what an upgrade of Pulsar would do to a recorded cluster."""

from pathlib import Path
from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options
from strategies.errors import SettingsError
from strategies.java.pulsar_versions_and_defaults import PulsarRelease


def upgrade_preview(
    recording: html_and_recording_options.Recording,
    *,
    before: Annotated[
        str, typer.Option("--from", metavar="VERSION", help="Version of Pulsar that runs today.")
    ] = "4.2",
    after: Annotated[
        str, typer.Option("--to", metavar="VERSION", help="Version of Pulsar after the upgrade.")
    ] = "5.0",
    broker_conf: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your broker.conf: its keys stay, keys that it leaves out change. Without it, "
            "Pulsar's defaults are compared.",
        ),
    ] = None,
    overrides: options.Overrides = None,
    html: html_and_recording_options.Html = None,
    as_json: options.Json = False,
) -> None:
    """Show what an upgrade of Pulsar would do to a recorded cluster: how much more it would move,
    what and when, how even the brokers would be, how many clients would reconnect, and which lines
    in broker.conf keep today's behaviour.

    Back-tests the recording in the closed loop with the rules and the defaults of both versions, as
    `backtest` does with shedding.mode = parity. Reads only.
    """
    from pulsar_rebalancer.lab.command_runs.upgrade_preview import preview

    html_and_recording_options.check_target(html)
    preview(
        recording,
        _releases(before, after),
        broker_conf,
        overrides=overrides or (),
        html=html,
        as_json=as_json,
    )


def _releases(before: str, after: str) -> tuple[PulsarRelease, PulsarRelease]:
    named = options.named_release(before, "--from"), options.named_release(after, "--to")
    if named[0] == named[1]:
        raise SettingsError(
            [f"--from and --to both mean Pulsar {named[0]}, so nothing changes; name two versions"]
        )
    return named
