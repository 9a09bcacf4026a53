"""Parts of the record of a round: its state, spread, bounds of its plan, errors of predictions."""

from dataclasses import dataclass

from strategies.reason_codes import StateCode


@dataclass(frozen=True, slots=True)
class RoundState:
    """The state of a round. `text`: a sentence for people, with the code of the deciding skip in
    brackets; `advice`: what to do, as a sentence.
    """

    code: StateCode
    text: str
    advice: str

    @property
    def line(self) -> str:
        """`state waiting: it is too early to move anything: … [waiting-for-hits]. Nothing to do`"""
        return f"state {self.code}: {self.text}. {self.advice}"


@dataclass(frozen=True, slots=True)
class Spread:
    """Unevenness of a set of figures: max − min, population standard deviation, max / mean (0 when
    the mean is 0).
    """

    range: float
    std: float
    max_over_mean: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proven bounds of a round's plan, compared with the best possible one.

    `spread`: highest minus lowest usage after the moves of the round (fraction); `best_spread`:
    spread that no assignment of whole bundles falls below; `moved`: traffic that the round moves
    (bytes/s); `least_to_move`: traffic that every algorithm must move to reach `spread`. The bounds
    are None in a cluster that is too large to compute them, and where brokers report only some of
    their bundles.
    """

    spread: float
    best_spread: float | None
    moved: float
    least_to_move: float | None

    @property
    def gap(self) -> float | None:
        """Fraction by which `spread` is at most above what whole bundles can reach."""
        return None if self.best_spread is None else max(0.0, self.spread - self.best_spread)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Errors of the strategy's predictions of the effect of its moves.

    `error`: mean difference between predicted and seen usage (fraction) of the brokers of its last
    moves that were judged, None before the first and from eight hours after; `useless_rounds`:
    rounds of moves in a row that brought less than a tenth of what they predicted; `returns`: moves
    within the rest time that took a bundle back to a former broker; `useless_moves`: those of the
    useless rounds.
    """

    error: float | None = None
    useless_rounds: int = 0
    returns: int = 0
    useless_moves: int = 0
