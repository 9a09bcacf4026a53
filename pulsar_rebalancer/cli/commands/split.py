"""`rebalancer split`: splits a bundle by hand, on the road of all splits."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.cli.by_hand import MoveOptions, ask, present_session, show_moves, stays
from pulsar_rebalancer.decisions.explain.explanation_lines import instruction, points
from pulsar_rebalancer.decisions.preview import PresentBundle, PresentCluster, Proposal
from sinks.wire.contracts.telemetry import MOST_POSITIONS
from strategies.cluster.model import MIB
from strategies.errors import SettingsError
from strategies.figures.texts_of_counts_names_and_ages import counted

_HASH = re.compile(r"0x[0-9a-fA-F]{1,8}", re.ASCII)
_MOST: Mapping[str, Callable[[PresentBundle], float]] = {
    "largest": lambda one: one.topics,
    "hottest": lambda one: one.throughput,
}


def split(
    bundle: Annotated[
        str,
        typer.Argument(
            metavar="BUNDLE|TOPIC|largest|hottest",
            help="The bundle, tenant/namespace/0x…_0x…, or a topic or partition in it, or the "
            "bundle with the most topics or the most traffic.",
        ),
    ],
    *,
    reason: options.Why,
    algorithm: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Pulsar's algorithm; default: splitting.algorithm."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="0x…,0x…", help="The hashes at which it is cut, instead of an algorithm."
        ),
    ] = None,
    move: Annotated[
        bool, typer.Option("--move", help="Then move all new bundles but the first one.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="BROKER", help="Move them to this broker; default: any."),
    ] = None,
    by: options.Who = None,
    yes: options.Yes = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until it is split.")
    ] = False,
    cluster: options.TheCluster = None,
    config: options.Config = None,
    overrides: options.Overrides = None,
    as_json: options.Json = False,
) -> None:
    """Split a bundle, whatever its size. With --move all new bundles but the one with the lowest
    hashes then leave the broker, within the limits of moves.

    Shows what would happen, asks, and waits until it is done. Ctrl-C then ends the command, not the
    split. Exit code 1 if it is not done: the time is outside of limits.windows or the bundle moves
    for 15 minutes, or no executor carries it out; 6 without a yes: then nothing has changed.
    """
    settings, positions = options.settings(config, overrides), _positions(at)
    with present_session(settings, cluster, by, reason) as (session, present):
        record = session.record(
            "split",
            to,
            bundle=_name_of(bundle, present),
            algorithm=algorithm,
            positions=positions,
            moves_children=move or to is not None,
        )
        ask(session, present, [record], MoveOptions(yes, no_wait, as_json), show=_show)


def _positions(text: str | None) -> tuple[int, ...]:
    words = [] if text is None else text.split(",")
    if len(words) > MOST_POSITIONS or not all(map(_HASH.fullmatch, words)):
        raise SettingsError(
            [f"--at: {text!r} is no list of at most {MOST_POSITIONS} hashes; write 0x10,0x20000000"]
        )
    return tuple(int(word, 16) for word in words)


def _name_of(word: str, present: PresentCluster) -> str:
    key = _MOST.get(word)
    if key is None or not present.bundles:
        return present.bundle_named(word)
    return max(sorted(present.bundles.values(), key=lambda one: one.name), key=key).name


def _show(proposals: Sequence[Proposal], present: PresentCluster) -> None:
    """What would be split, and what would move then."""
    (one,) = proposals
    bundle, line = one.bundle, f"{one.intent.bundle} {stays(one.status)}"
    if one.command is not None and bundle is not None:
        has = f"{counted(bundle.topics, 'topic')}, {bundle.throughput / MIB:.1f} MiB/s"
        line = f"{instruction(one.command)}: {has}; {one.command.text}"
    console.say(line)
    if one.shares:
        parts = (f"{child} {points(share)} %" for child, share in one.shares.items())
        console.say(f"parts of its traffic, by its topics: {', '.join(parts)}")
    if one.children is not None:
        to = one.intent.broker or "the brokers that fit best"
        console.say(
            f"then all new bundles but the first one move to {to}; the whole bundle, if it moved "
            "now:"
        )
        show_moves([one.children], present)
