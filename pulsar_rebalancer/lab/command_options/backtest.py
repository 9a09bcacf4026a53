"""`rebalancer backtest`: decisions of strategies and settings on a recording, and the load that
results.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options

_AddBroker = Annotated[
    list[str] | None,
    typer.Option(
        metavar="N=MACHINE",
        help="What if there were N more brokers, or one of this name, empty, on the machine of "
        "this one. Repeatable.",
    ),
]
_RemoveBroker = Annotated[
    list[str] | None,
    typer.Option(metavar="BROKER", help="What if this broker had not been there. Repeatable."),
]
_Scale = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMESPACES=FACTOR",
        help="What if these namespaces had FACTOR times the traffic, such as 'tenant/*=2'. "
        "Repeatable.",
    ),
]
_Policies = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What if these isolation policies were posted: what they unload, and its effect.",
    ),
]


def backtest(
    recording: html_and_recording_options.Recording,
    *,
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Strategy instead of the one in the settings. Repeatable: one run each.",
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE[;…]",
            help="Additional run of each strategy with these settings. Repeatable.",
        ),
    ] = None,
    loop: Annotated[
        Literal["closed", "open"],
        typer.Option(help="closed: recorded loads follow the moves; open: reports do not react."),
    ] = "closed",
    add_broker: _AddBroker = None,
    remove_broker: _RemoveBroker = None,
    scale: _Scale = None,
    policies: _Policies = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    html: html_and_recording_options.Html = None,
    fail_on_imbalance: html_and_recording_options.FailOnImbalance = False,
    as_json: options.Json = False,
) -> None:
    """Test strategies and settings on a recording, and compare them in a table and a report.

    The table has one row per run and cluster: how even the brokers were, and how much was moved.
    Large recordings are read many times faster after `rebalancer convert`.
    """
    from pulsar_rebalancer.lab.backtest.what_if import read_what_if
    from pulsar_rebalancer.lab.command_runs.backtest import backtest_all

    what_if = read_what_if(add_broker or [], remove_broker or [], scale or [], policies)
    html_and_recording_options.check_target(html)
    backtest_all(
        recording,
        strategy or [],
        variant or [],
        loop,
        what_if,
        config=config,
        overrides=overrides,
        html=html,
        fail_on_imbalance=fail_on_imbalance,
        as_json=as_json,
    )
