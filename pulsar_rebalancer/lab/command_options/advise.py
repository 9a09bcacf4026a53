"""`rebalancer advise`: how many brokers, bundles and partitions a cluster needs, and when
moves cost least.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options

_Recording = Annotated[
    Path | None,
    typer.Argument(
        metavar="[RECORDING]",
        help="A .parquet, .jsonl, .jsonl.gz or .jsonl.zst file; without one, the telemetry topic.",
    ),
]
_PlanFor = Annotated[
    Literal["peak"] | None, typer.Option(help="Also the fewest moves for the peak of the days.")
]
_Expect = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LAUNCH",
        help="A namespace to come: tenant/ns=120MB/s,partitions=64. Repeatable.",
    ),
]
_Every = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS",
        min=0.001,
        help="Repeat after this time until SIGTERM, and serve gauges for autoscalers.",
    ),
]


def advise(
    ctx: typer.Context,
    recording: _Recording = None,
    *,
    days: Annotated[float, typer.Option(min=0.01, max=90, help="Only the last days.")] = 7,
    at_most: Annotated[
        float, typer.Option(min=0.05, max=1, help="Usage above which a broker is overloaded.")
    ] = 0.85,
    spread: Annotated[
        float, typer.Option(min=0.1, max=100, help="Points of usage that brokers may be apart.")
    ] = 5,
    per_partition: Annotated[
        float, typer.Option(min=0.01, metavar="MB/S", help="Traffic in that a partition takes.")
    ] = 20,
    may_go: Annotated[
        list[str] | None, typer.Option(metavar="BROKER", help="Only this broker. Repeatable.")
    ] = None,
    expect: _Expect = None,
    plan_for: _PlanFor = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask for these moves, as move does.")] = False,
    by: options.Who = None,
    yes: options.Yes = False,
    no_wait: options.NoWait = False,
    every: _Every = None,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    html: html_and_recording_options.Html = None,
    as_json: options.Json = False,
) -> None:
    """Advise on the size of a cluster: the fewest brokers, whether one may go, the bundles that
    balance needs, topics that need partitions, and the hours in which moves cost least.

    A yes comes with a plan that was found, with one more broker dead. Prints the commands; without
    --ask, changes nothing. With --every, exit code 0 after SIGTERM, 130 after Ctrl-C.
    """
    from pulsar_rebalancer.lab.command_runs.advise import answer

    html_and_recording_options.check_target(html)
    settings = options.settings if recording or every or ask else options.installation
    answer(
        recording,
        settings(config, overrides),
        days=days,
        cluster=cluster,
        html=html,
        every_h=every,
        ask=ask,
        by=by,
        yes=yes,
        no_wait=no_wait,
        as_json=as_json,
        debug=options.debug(ctx),
        plan_for=plan_for,
        at_most=at_most,
        spread=spread,
        per_partition=per_partition * 1e6,
        may_go=may_go or (),
        expect=expect or (),
    )
