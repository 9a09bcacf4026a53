"""Rounds in a state, and notices, one line each."""

from dataclasses import replace

from sinks.notices.delivery import Notice, NoticeCause
from strategies.cluster.model import Round
from strategies.cluster.round_figures import RoundState, Spread
from strategies.states_and_advice_of_codes import STATES

T0 = 1_795_000_000_000
MINUTE = 60_000
#: Names as a hostile program may choose them.
HOSTILE = "<!channel>&amp;*b*`</script>\u202e\n<http://evil|here>"


def a_round(code: str, number: int, **changes: object) -> Round:
    """The round of a minute, of two brokers that are 50 points apart."""
    (found,) = [state for state in STATES if state == code]
    plain = Round(
        cluster="prod",
        round=number,
        epoch=1,
        ts=T0 + number * MINUTE,
        closed_by="sweep",
        strategy="steady",
        brokers=("b1:8080", "b2:8080", "b3:8080"),
        stale={},
        usage={"b1:8080": 0.82, "b2:8080": 0.34, "b3:8080": 0.31},
        usage_after={"b1:8080": 0.5, "b2:8080": 0.48, "b3:8080": 0.49},
        spread=Spread(0.51, 0.2, 1.7),
        spread_after=Spread(0.02, 0.01, 1.0),
        throughput_spread=Spread(1e7, 5e6, 1.5),
        commands=(f"c-{number}",) if code == "acting" else (),
        skips=(),
        digest="0123456789abcdef",
        version="0.1.0",
        state=RoundState(found, f"the reason for {code} [{code}-code]", "What to do."),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def a_notice(kind: str = "cannot-help", **changes: object) -> Notice:
    """About the cluster prod."""
    plain = {
        "kind": kind,
        "cluster": "prod",
        "title": f"prod: {kind}",
        "ts": T0,
        "since": T0,
        "cause": NoticeCause(kind, "a sentence", "What to do."),
    }
    return Notice(**{**plain, **changes})  # type: ignore[arg-type]
