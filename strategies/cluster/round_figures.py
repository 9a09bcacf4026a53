"""Parts of the record of a round: its state, spread, bounds of its plan, errors of predictions."""

from dataclasses import dataclass

from strategies.states_and_advice_of_codes import StateCode


@dataclass(frozen=True, slots=True)
class RoundState:
    """The state of a round, see `state_of_round`."""

    code: StateCode
    #: A sentence for people, with the code of the deciding skip in brackets.
    text: str
    #: The operator's next step, as a sentence.
    advice: str

    @property
    def line(self) -> str:
        """The state as a line of text, such as
        `state waiting: it is too early to move anything: … [waiting-for-hits]. Nothing to do`.
        """
        return f"state {self.code}: {self.text}. {self.advice}"


@dataclass(frozen=True, slots=True)
class Spread:
    """Unevenness of a set of figures."""

    #: Largest minus smallest.
    range: float
    #: Population standard deviation.
    std: float
    #: Largest divided by mean; 0 when the mean is 0.
    max_over_mean: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """A round's plan beside proven bounds of the best possible one. The bounds are None
    where brokers report only some of their bundles.
    """

    #: Highest minus lowest usage after the moves of the round (fraction).
    spread: float
    #: Lower bound of this spread under every assignment of whole bundles.
    best_spread: float | None
    #: Traffic that the round moves (bytes/s).
    moved: float
    #: Lower bound of the traffic that any algorithm moves to reach `spread` (bytes/s).
    least_to_move: float | None

    @property
    def gap(self) -> float | None:
        """Upper bound of the distance from `spread` to the best reachable one (fraction)."""
        return None if self.best_spread is None else max(0.0, self.spread - self.best_spread)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Errors of the strategy's predictions of the effect of its moves."""

    #: Mean difference between predicted and reported usage (fraction) of the brokers of its last
    #: moves that were compared; None before the first comparison and from eight hours after it.
    error: float | None = None
    #: Rounds of moves in a row that brought less than a tenth of their prediction.
    useless_rounds: int = 0
    #: Moves within the rest time that took a bundle back to a former broker.
    returns: int = 0
    #: Moves of the useless rounds.
    useless_moves: int = 0
