"""Lets rounds yield to something else that moves bundles (a rival), and makes their skips."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from strategies.cluster.budget import HOUR_MS
from strategies.cluster.cool_downs import of_foreign_moves
from strategies.cluster.model import Skip
from strategies.cluster.rival_state import ForeignMove, Rivals, forget_old_commands
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.settings import RivalSettings
from strategies.states_and_advice_of_codes import NEXT_ROUNDS, Meaning, Refusal

_STOP_IT = (
    "Stop what moves bundles: switch Pulsar's own shedder off (`rebalancer doctor`), or end the "
    "script; rounds act again by themselves."
)
#: The reason codes of this module.
MEANINGS = (
    Meaning("yielding", "yielding", 200, _STOP_IT),
    Meaning("rounds-yield", "yielding", 210, _STOP_IT),
    Meaning("moved-by-others", "waiting", 660, NEXT_ROUNDS),
)

#: Why nothing is moved or split; continues a sentence.
YIELDS = "rounds yield to something else that moves bundles"
#: Number of rounds within an hour with moves against the rebalancer's from which on rounds yield.
_UNDONE_ROUNDS = 2
#: Maximum number of doublings of the calm time.
_MOST_AGAIN = 3
#: Maximum number of foreign moves in a state, and of pairs of brokers that a sentence names.
_KEPT, _NAMED = 1_000, 3


def update_yielding(rivals: Rivals, now_ms: int, settings: RivalSettings, rest_ms: int) -> Rivals:
    """Starts or ends yielding when a round closes. `rest_ms`: `round.cool_down_ms`."""
    oldest = now_ms - max(HOUR_MS, rest_ms)
    moves = tuple(move for move in (*rivals.moves, *rivals.news) if move.ts >= oldest)[-_KEPT:]
    against = [now_ms] if any(move.against for move in rivals.news) else []
    rivals = replace(
        rivals,
        news=(),
        moves=moves,
        against_ms=(*(ts for ts in rivals.against_ms if ts >= now_ms - HOUR_MS), *against),
    )
    rivals = forget_old_commands(rivals, now_ms)
    if rivals.yielding_ms is not None:
        newest = max((move.ts for move in moves), default=-1)
        calm = newest <= now_ms - calm_ms(rivals, settings) or settings.moves_per_hour == 0
        ended = replace(rivals, yielding_ms=None, settled_ms=now_ms, against_ms=())
        return ended if calm else rivals
    if settings.moves_per_hour == 0 or not _has_rival(rivals, now_ms, settings):
        return rivals
    relapses = rivals.again + 1 if _is_just_back(rivals, now_ms) else 0
    return replace(rivals, yielding_ms=now_ms, again=min(relapses, _MOST_AGAIN))


def refuse_while_yielding(rivals: Rivals) -> Refusal | None:
    """Returns the refusal of the bundles that rounds want to move while they yield; drains and
    moves by hand go on.
    """
    if rivals.yielding_ms is None:
        return None
    return Refusal("rounds-yield", f"would be moved, but {YIELDS}")


def calm_ms(rivals: Rivals, settings: RivalSettings) -> int:
    """Returns the time (ms) without foreign moves after which rounds act again. It doubles with
    every relapse, because a rival that only reverts our moves is silent while rounds yield.
    """
    return settings.calm_ms << rivals.again


def _has_rival(rivals: Rivals, now_ms: int, settings: RivalSettings) -> bool:
    """True if there are too many foreign moves, or enough rounds with moves that undo the
    rebalancer's. Within an hour after rounds ended yielding, one such round is enough.
    """
    undone = 1 if _is_just_back(rivals, now_ms) else _UNDONE_ROUNDS
    return (
        len(_foreign_moves(rivals, now_ms)) > settings.moves_per_hour
        or len(rivals.against_ms) >= undone
    )


def _is_just_back(rivals: Rivals, now_ms: int) -> bool:
    return 0 <= now_ms - rivals.settled_ms < HOUR_MS and rivals.settled_ms >= 0


def _foreign_moves(rivals: Rivals, now_ms: int) -> Sequence[ForeignMove]:
    """Returns the foreign moves of the last hour to which rounds have not yielded yet."""
    since_ms = max(now_ms - HOUR_MS, rivals.settled_ms)
    return [move for move in rivals.moves if move.ts > since_ms]


def describe_rival(rivals: Rivals) -> str:
    """Returns a phrase about the rival, as far as the newest sweep shows who it is."""
    if rivals.leader is None or rivals.shedding is None:
        return "the collector could not read at the leader whether Pulsar's own shedder is on"
    if rivals.shedding:
        return f"Pulsar's own shedder is on at the leader {rivals.leader}"
    return (
        "a person, a script or a former leader moves them: Pulsar's own shedder is off at the "
        f"leader {rivals.leader}"
    )


def rival_skips(
    rivals: Rivals, cluster: str, now_ms: int, settings: RivalSettings, rest_ms: int
) -> tuple[Skip, ...]:
    """Returns the skips about foreign moves: the bundles that rest, and the reason to yield."""
    if not rivals.moves:
        return ()
    rest = of_foreign_moves(rivals, now_ms, rest_ms)
    reasons = []
    if rest:
        recent = [move for move in rivals.moves if move.ts >= now_ms - rest_ms]
        text = (
            f"something else moved {counted(len(recent), 'bundle')} ({_paths(recent)}); "
            f"{describe_rival(rivals)}; "
            f"each rests for round.cool_down_ms = {rest_ms}"
        )
        reasons.append(
            Skip("bundle", tuple(rest), "moved-by-others", text, evidence={"moves": len(recent)})
        )
    if rivals.yielding_ms is not None:
        reasons.append(_yielding_skip(rivals, cluster, now_ms, settings))
    return tuple(reasons)


def _yielding_skip(rivals: Rivals, cluster: str, now_ms: int, settings: RivalSettings) -> Skip:
    moves = _foreign_moves(rivals, now_ms)
    since_ms = min((move.ts for move in moves), default=rivals.yielding_ms or now_ms)
    last_ms = max((move.ts for move in rivals.moves), default=now_ms)
    text = (
        f"something else has moved {counted(len(moves), 'bundle')} in "
        f"{_minutes(now_ms - since_ms)} ({_paths(moves)}), the last one "
        f"{_minutes(now_ms - last_ms)} ago; {describe_rival(rivals)}; rounds act again after "
        f"{_minutes(calm_ms(rivals, settings))} (rivals.calm_ms) without such a move"
    )
    return Skip(
        "cluster",
        (cluster,),
        "yielding",
        text,
        evidence={
            "moves": len(moves),
            "since_ms": since_ms,
            "last_ms": last_ms,
            "calm_ms": calm_ms(rivals, settings),
        },
    )


def _paths(moves: Sequence[ForeignMove]) -> str:
    """Returns the pairs of brokers of the moves as a phrase, the most frequent first."""
    counts = Counter((move.source, move.destination) for move in moves)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ways = [f"{count} from {source} to {to}" for (source, to), count in ranked[:_NAMED]]
    others = len(ranked) - _NAMED
    return ", ".join([*ways, *([f"{others} other ways"] if others > 0 else [])])


def _minutes(ms: int) -> str:
    return f"{ms / 60_000:.0f} min" if ms >= 120_000 else f"{ms / 1000:.0f} s"
