"""Contains errors raised by rules: reports them on the record or round; the state stays as it was
(decision 0253).

One cluster's records are folded beside those of others. So an error of a strategy, or of a rule
that meets figures it was not written for, sets aside one record or one round, and nothing else.
"""

import re
from collections.abc import Iterable
from dataclasses import astuple
from itertools import chain
from math import isfinite
from traceback import walk_tb
from typing import Final

from strategies.cluster.model import Command, Round, Skip
from strategies.cluster.strategy_memory import Memory
from strategies.errors import StateVersionError
from strategies.round.round_input_and_digest import RoundResult
from strategies.states_and_advice_of_codes import Meaning

#: Code of the rejected record, and of the skip of a round.
RAISED: Final = "rule-raised"
#: The reason codes of this module.
MEANINGS = (
    Meaning(
        RAISED,
        "set-aside",
        100,
        "Correct the strategy, if it is one of your own; otherwise report the "
        "sentence. Each round tries again.",
    ),
)
#: An error of the stored state: no record can be folded after it.
NOT_OF_RULES = (StateVersionError,)
_LONGEST = 300
#: Address of an object in an error's text; it differs from process to process.
_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
#: Types that values of a strategy may have.
_NONE, _TEXT, _COUNT = frozenset({type(None)}), frozenset({str}), frozenset({int})
_FIGURE = _COUNT | {float}
_PLAIN = _FIGURE | _TEXT | _NONE | {bool}


def raised_text(error: Exception) -> str:
    """Returns the error's type, the line that raised it, and its text, without parts that differ
    from process to process: addresses, and texts made of other objects.
    """
    *_, (frame, line) = walk_tb(error.__traceback__)
    place = f"{frame.f_globals.get('__name__', '?')}, line {line}"
    plain = all(isinstance(part, str | int | float) for part in error.args)
    message = _message_of(error) if plain else ""
    return f"{type(error).__name__} in {place}" + (f": {message}" if message else "")


def _message_of(error: Exception) -> str:
    try:
        return _ADDRESS.sub("at …", " ".join(str(error).split()))[:_LONGEST]
    except Exception:  # an error whose text raises, too
        return ""


def check_plain(result: RoundResult) -> None:
    """Checks the values that strategies write into records and into the memory. They must have
    these very types, because the encoders of topics and of the state refuse subclasses, such as
    numpy's numbers. Raises TypeError, and ValueError for numbers that are not finite.
    """
    decisions: list[Command | Skip] = [*result.commands, *result.round.skips]
    texts = ((decision.code, decision.text, *decision.evidence) for decision in decisions)
    _check_kinds(chain.from_iterable(texts), _TEXT, "code, text and names of evidence")
    evidence = [value for decision in decisions for value in decision.evidence.values()]
    _check_kinds(evidence, _PLAIN, "evidence")
    _check_finite((value for value in evidence if isinstance(value, float)), "evidence")
    names = ((skip.subject, skip.broker, *skip.names) for skip in result.round.skips)
    _check_kinds(chain.from_iterable(names), _TEXT | _NONE, "names of a skip")
    moves = ((one.bundle, one.source, one.destination) for one in result.commands)
    _check_kinds(chain.from_iterable(moves), _TEXT | _NONE, "names of a command")
    usages = (astuple(command.expected) for command in result.commands)
    _check_figures(chain.from_iterable(usages), "usages")
    _check_round(result.round)
    _check_memory(result.memory)


def _check_round(record: Round) -> None:
    _check_figures((*record.usage.values(), *record.usage_after.values()), "usages")
    bounds, forecast = record.certificate, record.forecast
    if bounds is not None:
        _check_figures(astuple(bounds), "bounds of a certificate")
    if forecast is not None:
        _check_figures((forecast.error,), "the error of a forecast")
        counts = (forecast.useless_rounds, forecast.returns, forecast.useless_moves)
        _check_kinds(counts, _COUNT, "counts of a forecast")


def _check_memory(memory: Memory) -> None:
    brokers, cluster = memory.brokers.values(), memory.cluster
    averages = ((broker.ewma, broker.placement_ewma, broker.throughput_ewma) for broker in brokers)
    _check_kinds(chain.from_iterable(averages), _FIGURE | _NONE, "averages in the memory")
    hits = ((broker.hit_high, broker.hit_low, broker.gave_at_ms) for broker in brokers)
    _check_kinds(chain.from_iterable(hits), _COUNT | _NONE, "hits and times in the memory")
    counts = (cluster.hits, cluster.turn, *cluster.split_hits.values())
    _check_kinds((*counts, *cluster.table_sizes.values()), _COUNT, "counts in the memory")
    names = (*cluster.planned, *cluster.planned.values(), *cluster.rotation, *cluster.split_hits)
    _check_kinds(names, _TEXT, "names in the memory")


def _check_figures(values: Iterable[float | None], what: str) -> None:
    present = [value for value in values if value is not None]
    _check_kinds(present, _FIGURE, what)
    _check_finite(present, what)


def _check_finite(values: Iterable[float], what: str) -> None:
    for value in values:
        if not isfinite(value):
            raise ValueError(f"{what} must be finite, got {value!r}")


def _check_kinds(values: Iterable[object], kinds: frozenset[type], what: str) -> None:
    wrong_types = sorted(
        f"{kind.__module__}.{kind.__name__}" for kind in {*map(type, values)} - kinds
    )
    if wrong_types:
        names = sorted(kind.__name__ for kind in kinds)
        raise TypeError(f"{what} must be one of {', '.join(names)}, got {', '.join(wrong_types)}")
