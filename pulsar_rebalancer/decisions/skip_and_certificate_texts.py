"""Says in words what a round proves, how well its strategy predicts, and what to do where moving
bundles cannot help; and its skips, drains, moves and rolls.
"""

from collections.abc import Sequence
from math import isnan

from strategies.cluster.intent_records_and_states import IntentStatus
from strategies.cluster.model import Skip
from strategies.cluster.round_figures import Certificate, Forecast
from strategies.figures.texts_of_counts_names_and_ages import counted, first_of
from strategies.round.commands_and_record import Proof

#: Gaps below this fraction read as 0.0 points.
NOTHING = 0.0005
#: Number of names of a skip that are printed; the rest is counted.
_NAMES_OF_SKIP = 4
#: Number of drains, moves and rolls that are printed; the rest is counted.
_INTENTS = 5


def number(count: int, thing: str) -> str:
    """`1 bundle`, `1,204 bundles`, `no bundles`."""
    return counted(count, thing) if count else f"no {thing}s"


def figure(value: float, unit: str = "") -> str:
    """One decimal and a unit; a dash for an unknown value."""
    return "–" if isnan(value) else f"{value:,.1f}{unit}"


def data_rate(value: float) -> str:
    """Bytes/s in the largest fitting unit."""
    if isnan(value):
        return "–"
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if value >= size:
            return f"{value / size:,.1f} {unit}"
    return f"{value:,.0f} B/s"


def certificate_text(bounds: Certificate) -> str:
    """`Estimated spread 6.2 points after the moves of this round: at most 1.2 above what whole
    bundles can reach (5.0 or more); they move 340.0 MB/s, at least 310.0 MB/s are necessary.`;
    empty if nothing moves and nothing is proven.
    """
    distance = _distance(bounds)
    if not (distance or bounds.moved):
        return ""
    spread = f"Estimated spread {figure(100 * bounds.spread)} points"
    after = " after the moves of this round" if bounds.moved else ""
    return f"{spread}{after}{distance}{_effort(bounds)}."


def proves_bound(bounds: Certificate) -> bool:
    """True if the lower bound of the spread says more than that no spread is below 0, in the
    figures that texts show.
    """
    if bounds.gap is None or bounds.best_spread is None:
        return False
    spread, gap, least, zero = (
        figure(100 * one) for one in (bounds.spread, bounds.gap, bounds.best_spread, 0.0)
    )
    return least != zero and gap != spread


def _distance(bounds: Certificate) -> str:
    if bounds.gap is None or bounds.best_spread is None:
        return ": no bounds, because reports list only some bundles"
    if not proves_bound(bounds):
        return ""
    if bounds.gap < NOTHING:
        return ": no assignment of whole bundles has a smaller one"
    return (
        f": at most {figure(100 * bounds.gap)} above what whole bundles can reach "
        f"({figure(100 * bounds.best_spread)} or more)"
    )


def _effort(bounds: Certificate) -> str:
    if not bounds.moved:
        return ""
    least = bounds.least_to_move
    needed = f", at least {data_rate(least)} are necessary" if least else ""
    return f"; they move {data_rate(bounds.moved)}{needed}"


def forecast_text(forecast: Forecast) -> str:
    """`The last predictions were 2.1 points off on average; 3 useless moves in 2 rounds in a row; 1
    move took a bundle back.`; empty where there is nothing to say.
    """
    useless = (
        f"{number(forecast.useless_moves, 'useless move')} in "
        f"{number(forecast.useless_rounds, 'round')}"
        f"{' in a row' if forecast.useless_rounds > 1 else ''}"
    )
    parts = [
        ""
        if forecast.error is None
        else f"the last predictions were {figure(100 * forecast.error)} points off on average",
        useless if forecast.useless_rounds else "",
        f"{number(forecast.returns, 'move')} took a bundle back" if forecast.returns else "",
    ]
    said = "; ".join(part for part in parts if part)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def sentences(proof: Proof) -> list[str]:
    """All sentences of a round; empty for strategies that state nothing of this."""
    said = [
        certificate_text(proof.certificate) if proof.certificate else "",
        forecast_text(proof.forecast) if proof.forecast else "",
        *(advice_text(skip, proof.certificate) for skip in proof.advice),
    ]
    return [one for one in said if one]


def advice_text(skip: Skip, bounds: Certificate | None) -> str:
    """`Further moves cannot help [coarse-bundles]: 14.0 points between the brokers remain: …`"""
    moves = "Further moves" if bounds and bounds.moved else "Moves"
    about = "" if skip.subject == "cluster" else f"{skip.names[0]}: "
    return f"{moves} cannot help [{skip.code}]: {about}{skip.text}."


def describe_skip(skip: Skip) -> str:
    """`left alone broker a:1, b:1 [below-threshold]: …`"""
    names = first_of(skip.names, _NAMES_OF_SKIP)
    on = f" on {skip.broker}" if skip.broker else ""
    return f"left alone {skip.subject} {names}{on} [{skip.code}]: {skip.text}"


def describe_intents(statuses: Sequence[IntentStatus]) -> list[str]:
    """The first ones, a line each, and the number of the others."""
    lines = [describe_intent(status) for status in statuses[:_INTENTS]]
    more = len(statuses) - len(lines)
    return lines + ([f"and {more} more: `rebalancer intents` shows them"] if more > 0 else [])


def describe_intent(status: IntentStatus) -> str:
    """`drain of a:1 (Ann: new disks) is draining: 6 of 10 bundles are left, 4 on their way; about
    90 s left, give or take 30 s. Nothing to do: the next rounds go on.`
    """
    about = f" of {status.broker}" if status.broker is not None else ""
    if status.bundle is not None:
        about = f" of {status.bundle}" + (f" to {status.broker}" if status.broker else "")
    left = ""
    if status.left_ms is not None and status.error_ms is not None:
        left = (
            f"; about {status.left_ms / 1000:.0f} s left, give or take "
            f"{status.error_ms / 1000:.0f} s"
        )
    return (
        f"{status.action}{about} ({status.by}: {status.reason}) is {status.state}: "
        f"{status.text}{left}. {status.advice}"
    )
