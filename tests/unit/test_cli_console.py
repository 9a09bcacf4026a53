"""Tables for people fit their terminal without a figure being cut."""

from __future__ import annotations

import pytest
from rich.console import Console

from pulsar_rebalancer.cli.console import Sheet

FIGURES = ("spread", "churn", "moves", "overload")
SHEET = Sheet(
    [("strategy", "left"), *((name, "right") for name in FIGURES)],
    [
        ["threshold/parity+LRUW", "13.4 (8.37–18.4)", "5.19", "3 (2–5)", "0"],
        ["avg/parity", "8.53", "1.5", "2", "1,000"],
    ],
    title="e7",
)


def lines(width: int) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(SHEET)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_wide_terminal_shows_one_table() -> None:
    told = lines(100)
    assert told[1].split() == ["strategy", *FIGURES]
    assert len(told) == 5


@pytest.mark.parametrize("width", [45, 50, 60])
def test_in_a_narrow_one_it_goes_on_below_and_no_figure_is_cut(width: int) -> None:
    told = lines(width)
    assert max(map(len, told)) <= width
    text = "\n".join(told)
    assert all(str(cell) in text for row in SHEET.rows for cell in row)
    assert [name for line in told for name in line.split() if name in FIGURES] == list(FIGURES)
    assert text.count("threshold/parity+LRUW") == text.count("strategy") > 1
    assert text.count("e7") == 1


def test_words_are_folded_where_even_two_columns_are_too_wide() -> None:
    assert max(map(len, lines(30))) <= 30
