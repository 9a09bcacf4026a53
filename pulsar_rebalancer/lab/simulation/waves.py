"""Changes of traffic over time: the exact mean factor of any time range, for each kind of wave, and
the factors of a trace file.

Uses + − × ÷ and floor only, so results are the same on every machine: the daily wave consists of
parabolas, not of a sine.
"""

from collections.abc import Callable
from functools import partial
from math import fsum, isfinite
from pathlib import Path

import numpy as np

from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import (
    Daily,
    OnOff,
    Steps,
    Trace,
    Wave,
)
from strategies.bundles import Floats
from strategies.errors import SettingsError

DAY_S = 86_400.0
#: Seconds since the start → integral of the factor from the start to that time, both float64[n].
Summed = Callable[[Floats], Floats]


def mean_between(summed: Summed, begin_s: Floats, end_s: Floats) -> Floats:
    """float64[n]: the mean factor from `begin_s` to `end_s`, which must be later. Before the start,
    the factor is that of the start.
    """
    return (summed(end_s) - summed(begin_s)) / (end_s - begin_s)


def summed_of(wave: Wave | None, chance: float) -> Summed:
    """The integral of a wave; `chance` (0–1) decides values that a scenario does not fix."""
    match wave:
        case None:
            return _steady
        case Steps():
            return _steps(wave)
        case OnOff():
            phase = wave.phase_s if wave.phase_s is not None else chance * (wave.on_s + wave.off_s)
            return partial(_on_off, wave=wave, phase_s=phase)
        case Daily():
            return partial(
                _daily,
                wave=wave,
                shift_s=(wave.peak_hour + (2 * chance - 1) * wave.shift_h) * 3600.0,
            )
        case Trace():
            return _trace(wave)


def _steady(at_s: Floats) -> Floats:
    return at_s


def _steps(wave: Steps) -> Summed:
    """The integral of steps: linear between the minutes at which the factor changes."""
    begin = [0.0, *(minute * 60.0 for minute, _ in sorted(wave.at))]
    factors = [1.0, *(factor for _, factor in sorted(wave.at))]
    sums = np.concatenate([[0.0], np.cumsum(np.diff(begin) * np.array(factors[:-1]))])
    return partial(_piecewise, begins=np.array(begin), sums=sums, slopes=np.array(factors))


def _piecewise(at_s: Floats, begins: Floats, sums: Floats, slopes: Floats) -> Floats:
    piece = np.maximum(np.searchsorted(begins, at_s, side="right") - 1, 0)
    return np.asarray(sums[piece] + (at_s - begins[piece]) * slopes[piece], dtype=np.float64)


def _on_off(at_s: Floats, wave: OnOff, phase_s: float) -> Floats:
    begins = wave.begins * 60.0
    later = np.maximum(at_s - begins, 0.0)
    length = wave.on_s + wave.off_s
    return (
        np.minimum(at_s, begins)
        + _on_until(later + phase_s, wave.on_s, length)
        - _on_until(np.array(phase_s), wave.on_s, length)
    )


def _on_until(at_s: Floats, on_s: float, length_s: float) -> Floats:
    whole = np.floor(at_s / length_s)
    return np.asarray(whole * on_s + np.minimum(at_s - whole * length_s, on_s), dtype=np.float64)


def _daily(at_s: Floats, wave: Daily, shift_s: float) -> Floats:
    """The integral of a daily wave of two parabolas: one around the peak, one around the low."""
    return at_s + wave.amplitude * (
        _arches(at_s - shift_s + DAY_S / 4) - _arches(np.array(DAY_S / 4 - shift_s))
    )


def _arches(at_s: Floats) -> Floats:
    """The integral of 1 − (2x − 1)² on the first half of a day and of its mirror image on the
    second; 0 over whole days.
    """
    part = at_s / DAY_S
    part = part - np.floor(part)
    half = np.where(part < 0.5, part, 1.0 - part) * 2.0
    return np.asarray(
        DAY_S / 2 * (2.0 * half * half - 4.0 / 3.0 * half * half * half), dtype=np.float64
    )


def _trace(wave: Trace) -> Summed:
    factors = np.array(wave.factors)
    sums = np.concatenate([[0.0], np.cumsum(factors)]) * wave.interval_s
    return partial(_repeated, sums=sums, factors=factors, interval_s=wave.interval_s)


def _repeated(at_s: Floats, sums: Floats, factors: Floats, interval_s: float) -> Floats:
    length = interval_s * len(factors)
    since = np.maximum(at_s, 0.0)
    whole = np.floor(since / length)
    rest = since - whole * length
    place = np.minimum((rest / interval_s).astype(np.int64), len(factors) - 1)
    before = np.minimum(at_s, 0.0) * factors[0]
    return np.asarray(
        before + whole * sums[-1] + sums[place] + (rest - place * interval_s) * factors[place],
        dtype=np.float64,
    )


def without_transients(wave: Wave | None) -> Wave | None:
    """The wave without its short-term changes: an on-off wave is replaced by its mean."""
    if isinstance(wave, OnOff):
        return Steps(kind="steps", at=((wave.begins, wave.on_s / (wave.on_s + wave.off_s)),))
    return wave


def recorded_factors(file: Path, column: str | None) -> list[float]:
    """The factors of a trace file, with a mean of 1: one figure per line; of several columns, the
    one with this name in the first line, by default the last.

    Skips empty lines and lines that begin with #.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            [f"{file}: the trace cannot be read ({error}); write one figure per line"]
        ) from error
    place = -1 if column is None else _place(file, "".join(lines[:1]), column)
    rows = [
        (number, line.split(","))
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    cells = [(number, row[place].strip() if place < len(row) else "") for number, row in rows]
    figures = [_figure(file, number, text) for number, text in cells]
    mean = fsum(figures) / len(figures) if figures else 0.0
    if mean <= 0:
        raise SettingsError(
            [
                f"{file}: no figure is above 0{'' if column is None else f' for {column}'}; "
                "write one figure per line"
            ]
        )
    return [figure / mean for figure in figures]


def _place(file: Path, heading: str, column: str) -> int:
    names = (
        [name.strip() for name in heading.lstrip("#").split(",")] if heading.startswith("#") else []
    )
    if column not in names:
        there = (
            f"there are {', '.join(names)}"
            if names
            else "its first line has no names; begin it with # and the names"
        )
        raise SettingsError([f"{file}: no column {column!r}; {there}"])
    return names.index(column)


def _figure(file: Path, number: int, text: str) -> float:
    try:
        figure = float(text)
    except ValueError as error:
        raise SettingsError([f"{file}:{number}: {text!r} is not a number"]) from error
    if not isfinite(figure) or figure < 0:
        raise SettingsError([f"{file}:{number}: {text} is not a load; write numbers of 0 or more"])
    return figure
