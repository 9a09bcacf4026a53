"""`rebalancer move` and `unload`: move bundles by hand, on the road of all moves."""

from typing import Annotated

import typer

from pulsar_rebalancer.cli import options
from pulsar_rebalancer.cli.by_hand import MoveOptions, ask_moves, present_session


def move(
    bundle: Annotated[
        str,
        typer.Argument(
            metavar="BUNDLE|TOPIC",
            help="The bundle, tenant/namespace/0x…_0x…, or a topic or partition in it.",
        ),
    ],
    *,
    reason: options.Why,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="BROKER", help="The destination, host:port; default: any."),
    ] = None,
    by: options.Who = None,
    yes: options.Yes = False,
    no_wait: options.NoWait = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Move a bundle to a broker, or away from where it is, within the limits of moves.

    Shows what would happen, asks, and waits until the bundle has moved. Ctrl-C then ends the
    command, not the move. Exit code 1 if it does not move: policies, filters or limits object for
    15 minutes, or no executor carries it out; 6 without a yes: then nothing has changed.
    """
    settings = options.settings(config, overrides)
    with present_session(settings, cluster, by, reason) as (session, present):
        moves = [(present.bundle_named(bundle), to)]
        ask_moves(session, present, moves, MoveOptions(yes, no_wait, as_json))


def unload(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE|BUNDLE|TOPIC",
            help="The namespace, tenant/namespace, or a bundle or topic, as for move.",
        ),
    ],
    *,
    reason: options.Why,
    by: options.Who = None,
    yes: options.Yes = False,
    no_wait: options.NoWait = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Move a bundle, or all bundles of a namespace, away from where they are, each to the broker
    that fits best, as many at a time as limits allow.

    As `move`: shows what would happen, asks, and waits; the same exit codes.
    """
    settings = options.settings(config, overrides)
    with present_session(settings, cluster, by, reason) as (session, present):
        moves = [(bundle, None) for bundle in present.bundles_named(name)]
        ask_moves(session, present, moves, MoveOptions(yes, no_wait, as_json))
