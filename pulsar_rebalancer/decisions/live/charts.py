"""The two pictures of a live page, in a size that does not grow with the cluster: usage of brokers
over time, and bundles that moved over time.
"""

import re
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pulsar_rebalancer.decisions.live.packed_rounds import PackedRound
from pulsar_rebalancer.decisions.live.page_views import (
    ANSWERS,
    Document,
    answer_of,
    names_of,
)
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveCluster
from strategies.bundles import Floats
from strategies.cluster.model import Command

#: Rows of a heat map: with more brokers, a row is the highest usage of several.
MOST_ROWS = 240
#: Brokers that have a line of their own each.
MOST_LINES = 12
#: Rows and columns of the map of moved bundles.
MOST_BUNDLES, MOST_COLUMNS = 400, 125
#: A cell is a usage in steps of half a percent.
STEPS, UNKNOWN = 200, 255
_DIGITS = re.compile(r"(\d+)")


def usage_over_time(one: LiveCluster) -> Document:
    """Usage per broker (or group of brokers) and round. `cells`: base64 of one byte per cell, row
    by row: usage × 200, 254 = more, 255 = unknown. `levels`: permille per round, or null.
    """
    rounds = one.decisions.rounds
    names = sorted(names_of(rounds), key=natural)
    groups = _groups(names)
    table = _table(rounds, names)
    return {
        "version": one.decisions.version,
        "times": [packed.round.ts for packed in rounds],
        "rounds": [[packed.round.epoch, packed.round.round] for packed in rounds],
        "rows": [
            {"name": names[begin], "last": names[end - 1], "count": end - begin}
            for begin, end in groups
        ],
        "cells": b64encode(_cells(table, groups).tobytes()).decode(),
        "levels": [_permilles(packed.levels) for packed in rounds],
        "lines": [_permilles(row) for row in table] if len(names) <= MOST_LINES else [],
    }


def natural(name: str) -> list[Any]:
    """An order in which broker-2 precedes broker-10."""
    parts = _DIGITS.split(name)
    return [(int(part[:18]), part) if place % 2 else (-1, part) for place, part in enumerate(parts)]


def _groups(names: Sequence[str]) -> list[tuple[int, int]]:
    count = min(len(names), MOST_ROWS)
    edges = [len(names) * place // count for place in range(count + 1)] if count else [0]
    return list(pairwise(edges))


def _table(rounds: Sequence[PackedRound], names: Sequence[str]) -> Floats:
    """Usage by broker and round; NaN where a round does not have a broker."""
    table = np.full((len(names), len(rounds)), np.nan)
    row_of = {name: row for row, name in enumerate(names)}
    rows_of = {
        places: np.array([row_of[name] for name in places.names], dtype=np.intp)
        for places in dict.fromkeys(one.places for one in rounds)
    }
    for column, one in enumerate(rounds):
        table[rows_of[one.places], column] = one.usage
    return table


def _cells(table: Floats, groups: Sequence[tuple[int, int]]) -> NDArray[np.uint8]:
    if not groups or not table.size:
        return np.zeros((0, 0), dtype=np.uint8)
    filled = np.where(np.isnan(table), -1.0, table)
    highest = np.maximum.reduceat(filled, [begin for begin, _ in groups], axis=0)
    steps = np.minimum(np.rint(highest * STEPS), UNKNOWN - 1)
    return np.where(highest < 0, UNKNOWN, np.maximum(steps, 0)).astype(np.uint8)


def _permilles(values: Sequence[float] | Floats | None) -> list[int | None] | None:
    if values is None:
        return None
    return [None if isnan(value) else round(1_000 * min(float(value), 1e6)) for value in values]


def bundles_over_time(one: LiveCluster) -> Document:
    """Commands per bundle and time, the bundles with the newest command first. `cells`: row,
    column, number of commands, and the answer to the newest of them, as a place in `answers`.
    """
    decisions, rounds = one.decisions, one.decisions.rounds
    count = min(len(rounds), MOST_COLUMNS)
    edges = [len(rounds) * place // count for place in range(count)]
    column_of = {one.key: bisect_right(edges, place) - 1 for place, one in enumerate(rounds)}
    by_bundle: dict[str, list[Command]] = {}
    for command in decisions.log.commands:
        if (command.epoch, command.round) in column_of:
            by_bundle.setdefault(command.bundle, []).append(command)
    newest = sorted(by_bundle.items(), key=lambda item: (-item[1][-1].issued_at_ms, item[0]))
    cells: dict[tuple[int, int], list[int]] = {}
    for row, (_, commands) in enumerate(newest[:MOST_BUNDLES]):
        for command in commands:
            cell = cells.setdefault((row, column_of[command.epoch, command.round]), [0, 0])
            cell[0] += 1
            cell[1] = ANSWERS.index(answer_of(command, decisions.log, one.now_ms))
    return {
        "version": decisions.version,
        "answers": list(ANSWERS),
        "columns": [[rounds[edge].round.ts, rounds[edge].round.round] for edge in edges],
        "until_ms": rounds[-1].round.ts if rounds else None,
        "rows": [
            {"bundle": bundle, "commands": len(given), "last_ms": given[-1].issued_at_ms}
            for bundle, given in newest[:MOST_BUNDLES]
        ],
        "total": len(newest),
        "cells": [[row, column, *cell] for (row, column), cell in cells.items()],
    }
