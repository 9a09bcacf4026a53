"""The data of a run's charts: thinned without losing peaks or dips, rounded, and named as the
page's script expects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np

from pulsar_rebalancer.decisions.skip_and_certificate_texts import (
    data_rate,
    figure,
    number,
    proves_bound,
    sentences,
)
from pulsar_rebalancer.lab.report.timeline_summary import Summary, count, share
from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from strategies.bundles import Floats, Ints


def bin_edges(rows: int, bins: int) -> Ints:
    """int64[k + 1]: row numbers that divide `rows` rows into k ≤ `bins` non-empty bins of nearly
    equal length.
    """
    return np.asarray(np.linspace(0, rows, max(1, min(rows, bins)) + 1).round(), dtype=np.int64)


def extremes(values: Floats, bins: int) -> Ints:
    """Rows of float64[rows] to keep: the first, lowest, highest and last of each bin; all rows if
    that saves nothing.

    A row without a figure is kept if its neighbours have one, so that gaps remain visible.
    """
    rows = len(values)
    if rows <= 4 * bins:
        return np.arange(rows, dtype=np.int64)
    edges = bin_edges(rows, bins)
    kept = {0, rows - 1}
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = values[begin:end]
        kept |= {begin, end - 1}
        missing = np.isnan(part)
        if not missing.all():
            kept |= {begin + int(np.nanargmin(part)), begin + int(np.nanargmax(part))}
        if missing.any():
            kept.add(begin + int(missing.argmax()))
    return np.array(sorted(kept), dtype=np.int64)


def peaks(values: Floats, bins: int) -> tuple[Ints, Floats]:
    """First row of each bin, and float64[bins, columns]: the highest figure per bin and column, NaN
    if there is none.
    """
    edges = bin_edges(len(values), bins)
    return edges[:-1], np.fmax.reduceat(values, edges[:-1], axis=0)


#: Maximum number of brokers that lines show; a heat map shows more.
MOST_LINES = 12
#: Number of bins of a chart; a line keeps up to four points per bin.
BINS = 240
#: Maximum number of figures in all heat maps of a page, and of marks in all its runs. Larger runs
#: get coarser charts.
CELLS, MARKS = 400_000, 2_000

_KINDS: Mapping[str, str] = {
    "simulated": "simulated: a model of a cluster, which reacts to every move",
    "re-assigned": "closed loop on a recording: the recorded load of "
    "every bundle follows its moves",
    "recorded": "open loop on a recording: the reports do not react to decisions",
}


def run_figures(run: Summary, runs: int) -> dict[str, Any]:
    """The data of one run; `runs`: number of runs on the page."""
    line = run.run
    return {
        "title": line.title,
        "kind": _KINDS[line.kind],
        "goal": line.goal,
        "notes": list(line.notes),
        "tiles": _tiles(run),
        "brokers": list(line.brokers),
        "usage": _lines(line) if len(line.brokers) <= MOST_LINES else _heat(line, runs),
        "spread": series(line.times_ms, run.spread),
        "bound": _bound(line),
        "proofs": _proofs(line, max(100, MARKS // runs)),
        "proofs_total": len(_stated(line, sorted(line.proofs))),
        "churn": _churn(line),
        "moves": _moves(line, _marked(line, max(100, MARKS // runs))),
        "moves_total": len(line.moves),
        "members": [[one.ts, one.broker, one.change, one.why] for one in line.memberships[:MARKS]],
        "before_after": _before_after(line, run.moves),
        "settings": [[path, setting_text(value)] for path, value in line.settings.items()],
    }


def comparison(runs: Sequence[Summary]) -> dict[str, Any]:
    """The table that compares runs; `best`: best rows of each column in which lower is better."""
    same_goal = len({run.run.goal for run in runs}) == 1
    rows = [
        [
            (run.run.title, 0.0),
            (figure(run.mean_spread), run.mean_spread),
            (figure(run.last_spread), run.last_spread),
            (figure(run.highest_usage, " %"), run.highest_usage),
            (share(run.reached_share), -run.reached_share if same_goal else 0.0),
            (
                f"{run.commands if run.run.kind == 'recorded' else len(run.moves):,}",
                float(len(run.moves)),
            ),
            (moved_traffic(run), run.traffic if run.moves else 0.0),
            (f"{run.repeated:,}", float(run.repeated)),
            (count(run.returns), run.returns),
            (count(run.useless_moves), run.useless_moves),
            (figure(run.prediction_error), run.prediction_error),
        ]
        for run in runs
    ]
    heads = [
        "run",
        "mean spread",
        "last spread",
        "peak usage",
        "in goal",
        "moves",
        "traffic",
        "again",
        "returns",
        "useless",
        "error",
    ]
    best = [
        [] if column == 0 else best_rows([row[column][1] for row in rows])
        for column in range(len(heads))
    ]
    return {"heads": heads, "rows": [[text for text, _ in row] for row in rows], "best": best}


def best_rows(values: Sequence[float]) -> list[int]:
    """Rows with the lowest figure; empty if all figures are equal or unknown."""
    known = [value for value in values if not isnan(value)]
    if len(known) < 2 or min(known) == max(known):
        return []
    return [row for row, value in enumerate(values) if value == min(known)]


def _tiles(run: Summary) -> list[list[str]]:
    """Tiles of label, figure and explanation."""
    first, last = figure(run.first_spread), figure(run.last_spread)
    moves = run.commands if run.run.kind == "recorded" else len(run.moves)
    per_day = moves / run.days if run.days >= 1 else None
    return [
        [
            "spread",
            f"{first} → {last}",
            "points between the fullest and the emptiest broker, first and last round",
        ],
        [
            "rounds within goal",
            share(run.reached_share),
            run.run.goal or "that met the strategy's goal",
        ],
        [
            "moves",
            f"{moves:,}",
            f"{per_day:.1f} a day" if per_day is not None else "bundles that change brokers",
        ],
        ["traffic moved", moved_traffic(run), "sum of all moves"],
        [
            "moved again",
            f"{run.repeated:,}",
            f"bundles that moved more than once; {number(run.returned, 'move')} returned at once",
        ],
        ["highest usage", figure(run.highest_usage, " %"), "of any broker in any round"],
        [
            "prediction error",
            figure(run.prediction_error),
            "points between the expected and the measured usage after moves",
        ],
        [
            "useless moves",
            count(run.useless_moves),
            "that brought less than a tenth of the expected fall of the spread",
        ],
        ["returns", count(run.returns), "moves of a bundle back to a broker within an hour"],
    ]


def moved_traffic(run: Summary) -> str:
    """The bytes/s of all moves."""
    return data_rate(run.traffic) if run.moves else "none"


def series(times: Ints, values: Floats) -> dict[str, Any]:
    """A line of times and figures, without those that the chart does not need."""
    kept = extremes(values, BINS)
    return {
        "t": times[kept].tolist(),
        "y": [None if isnan(value) else value for value in np.round(values[kept], 2).tolist()],
    }


def _bound(line: Timeline) -> dict[str, Any]:
    """The spread, in points, that no assignment of whole bundles falls below, where it is known; a
    gap where it says nothing, and empty if it says nothing of any round.
    """
    known = {
        row: best if best is not None and proves_bound(proof.certificate) else float("nan")
        for row, proof in sorted(line.proofs.items())
        if proof.certificate is not None
        for best in [proof.certificate.best_spread]
    }
    if all(map(isnan, known.values())):
        known = {}
    rows = np.array(list(known), dtype=np.int64)
    return series(line.times_ms[rows], 100.0 * np.array(list(known.values()), dtype=np.float64))


def _proofs(line: Timeline, most: int) -> list[list[Any]]:
    """Time, round and sentences of the rounds that prove something: all, or those with moves or
    advice, from the last ones back.
    """
    rows = sorted(line.proofs)
    if len(rows) > most:
        moved = {move.round for move in line.moves}
        rows = [row for row in rows if row in moved or line.proofs[row].advice][-most:]
    return _stated(line, rows)


def _stated(line: Timeline, rows: Sequence[int]) -> list[list[Any]]:
    """Time, round and sentences of these rounds, without those that have nothing to say."""
    proofs = [line.proofs[row] for row in rows]
    said = [
        # The error of the last moves stays the same until the next ones.
        sentences(replace(one, forecast=None) if last and one.forecast == last.forecast else one)
        for one, last in zip(proofs, [None, *proofs], strict=False)
    ]
    return [
        [int(line.times_ms[row]), row + 1, " ".join(text)]
        for row, text in zip(rows, said, strict=True)
        if text
    ]


def _lines(line: Timeline) -> dict[str, Any]:
    return {
        "form": "lines",
        "lines": [
            series(line.times_ms, 100.0 * line.usage[:, column])
            for column in range(len(line.brokers))
        ],
    }


def _heat(line: Timeline, runs: int) -> dict[str, Any]:
    """The highest usage per broker and bin, in tenths of a percent; −1 if there is none."""
    bins = max(24, min(4 * BINS, CELLS // (len(line.brokers) * runs)))
    begins, highest = peaks(line.usage, bins)
    tenths = np.where(np.isnan(highest), -1, np.round(1000.0 * np.nan_to_num(highest))).astype(
        np.int64
    )
    with np.errstate(invalid="ignore"):
        mean = np.array(
            [np.nanmean(row) if np.isfinite(row).any() else np.nan for row in line.usage]
        )
    top, low = np.fmax.reduce(line.usage, axis=1), np.fmin.reduce(line.usage, axis=1)
    return {
        "form": "heat",
        "t": line.times_ms[begins].tolist(),
        "z": tenths.T.tolist(),
        "bands": {
            name: series(line.times_ms, 100.0 * values)
            for name, values in (("fullest", top), ("mean", mean), ("emptiest", low))
        },
    }


def _churn(line: Timeline) -> dict[str, Any]:
    """Moves per bin: bundles that left, and commands that were not applied."""
    if not line.rounds:
        return {"t": [], "moved": [], "refused": [], "width": line.interval_ms}
    edges = bin_edges(line.rounds, 120)
    moved, refused = (
        np.histogram([move.round for move in line.moves if move.happened is happened], edges)[0]
        for happened in (True, False)
    )
    return {
        "t": line.times_ms[edges[:-1]].tolist(),
        "moved": moved.tolist(),
        "refused": refused.tolist(),
        "width": int(np.diff(edges).max()) * line.interval_ms,
    }


def _marked(line: Timeline, most: int) -> list[Move]:
    """The moves with a mark: all, or those with the most traffic of each bin."""
    if len(line.moves) <= most:
        return list(line.moves)
    edges = bin_edges(line.rounds, BINS)
    binned: dict[int, list[Move]] = {}
    for move in line.moves:
        binned.setdefault(int(np.searchsorted(edges, move.round, side="right")), []).append(move)
    each = max(1, most // len(binned))
    return sorted(
        (
            one
            for moves in binned.values()
            for one in sorted(moves, key=lambda one: -np.nan_to_num(one.traffic))[:each]
        ),
        key=lambda move: move.ts,
    )


def _moves(line: Timeline, moves: Sequence[Move]) -> list[list[Any]]:
    """Time, bundle, source, destination, code, reason, outcome, traffic, usage of the source in
    percent, round.
    """
    columns = {name: index for index, name in enumerate(line.brokers)}
    usage = 100.0 * line.usage
    result = []
    for move in moves:
        source = columns.get(move.source or "")
        at = None if source is None else float(usage[move.round, source])
        known = at is not None and not isnan(at)
        outcome = move.kind if move.outcome is None else f"{move.kind}, {move.outcome}"
        result.append(
            [
                int(line.times_ms[move.round]),
                move.bundle,
                move.source or "",
                move.destination or "",
                move.code,
                move.reason,
                outcome,
                data_rate(move.traffic),
                round(at, 1) if known and at is not None else None,
                move.round + 1,
            ]
        )
    return result


def _before_after(line: Timeline, moves: Sequence[Move]) -> list[list[str]]:
    """Per broker: usage and throughput in its first and last round, number of bundles given and
    taken.
    """
    rows = []
    for column, broker in enumerate(line.brokers):
        usage, rate = 100.0 * line.usage[:, column], line.msg_throughput[:, column]
        there = np.flatnonzero(np.isfinite(usage))
        figures = ["–"] * 4
        if len(there):
            first, last = int(there[0]), int(there[-1])
            figures = [figure(float(usage[at]), " %") for at in (first, last)]
            figures += [data_rate(float(rate[at])) for at in (first, last)]
        given, taken = (
            sum(move.source == broker for move in moves),
            sum(move.destination == broker for move in moves),
        )
        rows.append([broker, *figures, f"{given:,}", f"{taken:,}"])
    return rows


def setting_text(value: object) -> str:
    """A value of a setting, as settings files have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
