"""`rebalancer advise`: how many brokers, bundles and partitions a recorded cluster needs, and when
moves cost least.
"""

from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.lab.command_options import html_and_recording_options


def advise(
    recording: html_and_recording_options.Recording,
    *,
    days: Annotated[
        float, typer.Option(min=0.01, max=90, help="Only the last days of the recording.")
    ] = 7,
    at_most: Annotated[
        float,
        typer.Option(min=0.05, max=1, help="Usage above which a broker is overloaded, 0 to 1."),
    ] = 0.85,
    spread: Annotated[
        float,
        typer.Option(min=0.1, max=100, help="Points of usage that brokers may be apart."),
    ] = 5,
    per_partition: Annotated[
        float,
        typer.Option(min=0.01, metavar="MB/S", help="Traffic in that one partition can take."),
    ] = 20,
    may_go: Annotated[
        list[str] | None,
        typer.Option(metavar="BROKER", help="Only whether this broker may go. Repeatable."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAUNCH",
            help="A namespace to come: tenant/ns=120MB/s,partitions=64. Repeatable.",
        ),
    ] = None,
    cluster: options.OnlyCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    html: html_and_recording_options.Html = None,
    as_json: options.Json = False,
) -> None:
    """Advise on the size of a recorded cluster: the fewest brokers, whether one may go, the bundles
    that balance needs, topics that need partitions, and the hours in which moves cost least.

    A yes comes with a plan that was found, with one more broker dead. Changes nothing: prints the
    commands.
    """
    from pulsar_rebalancer.lab.command_runs.advise import answer

    html_and_recording_options.check_target(html)
    answer(
        recording,
        options.settings(config, overrides),
        days=days,
        cluster=cluster,
        html=html,
        as_json=as_json,
        at_most=at_most,
        spread=spread,
        per_partition=per_partition * 1e6,
        may_go=may_go or (),
        expect=expect or (),
    )
