"""`rebalancer tune`: searches for settings that would have been better for a recorded cluster."""

from functools import partial
from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options


def tune(
    recording: html_and_recording_options.Recording,
    *,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Strategy instead of the one in the settings."),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(min=1, max=10_000, metavar="N", help="Number of sets of settings to try."),
    ] = 24,
    training: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=0.9,
            metavar="PART",
            help="Part of the time for the search; the rest is the test.",
        ),
    ] = 0.6,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed for drawing the sets.")] = 1,
    config: options.Config = None,
    overrides: options.Overrides = None,
    html: html_and_recording_options.Html = None,
    as_json: options.Json = False,
) -> None:
    """Search for better settings on a recording.

    Searches on the first part of the time and tests on the rest. The loop is closed: recorded loads
    of bundles follow the moves (see `backtest`). Prints the sets of settings that no other set
    beats, and whether one of them is better than the current settings. The report of --html shows
    the best set on the test part.
    """
    from pulsar_rebalancer.lab.command_runs.settings_in_recorded_release import (
        in_recorded_release,
    )
    from pulsar_rebalancer.lab.command_runs.tune import tune_on

    html_and_recording_options.check_target(html)
    named = options.flags(shedding__strategy=strategy)
    settings_with = partial(options.settings, config, overrides, *named)
    tune_on(
        recording,
        in_recorded_release(settings_with(), recording),
        settings_with,
        trials=trials,
        training=training,
        seed=seed,
        html=html,
        as_json=as_json,
    )
