"""What a round proves, as advice and in the output of the real commands on a recording."""

from pathlib import Path

import pytest

from tests.unit.command_line import rebalancer

RECORDING = Path(__file__).parents[1] / "data/recordings/modular-broker-killed.jsonl.gz"
STEADY = ("--set", "shedding.strategy=steady")


@pytest.mark.heavy
def test_explain_shows_what_each_round_of_a_recording_proves(tmp_path: Path) -> None:
    """Of the second round, less than two brokers have samples."""
    rebalancer("replay", RECORDING, "--out", tmp_path, *STEADY)

    first, second, last = (
        rebalancer("explain", word, "--from", tmp_path).out for word in ("1", "2", "latest")
    )

    assert "points: no assignment of whole bundles has a smaller one.\n" in first
    assert "Estimated spread" not in second
    assert "; they move 999.4 kB/s, at least 980.1 kB/s are necessary.\n" in last
    said = rebalancer("explain", "latest", "--from", tmp_path, "--json").json["sentences"]
    (line,) = (one for line in last.splitlines() if (one := line.strip()).startswith("Estimated"))
    assert said == [{"cluster": "modularbrokerkilled", "epoch": 1, "round": 7, "text": [line]}]


@pytest.mark.heavy
def test_the_demo_shows_what_its_rounds_prove(tmp_path: Path) -> None:
    given = ("demo", "--engine", "plain", "--strategy", "steady", "--out", tmp_path / "demo")

    text = rebalancer(*given).out
    rounds = rebalancer(*given, "--json").json["rounds"]

    assert " MB/s are necessary." in text
    busy = [one for one in rounds if one["commands"]]
    assert busy
    assert all(one["sentences"] for one in busy)
    for one in rounds:
        for sentence in one["sentences"]:
            assert (sentence in text) == bool(one["commands"]), "quiet rounds have a line each"
    assert "The last predictions were " in str(rounds)


@pytest.mark.heavy
def test_a_back_test_shows_what_moves_brought_and_its_report_what_rounds_prove(
    tmp_path: Path,
) -> None:
    page = tmp_path / "report.html"
    given = ("backtest", RECORDING, "--strategy", "steady", "--html", page)

    table, figures = rebalancer(*given), rebalancer(*given, "--json").json

    assert "returns" in table.out
    assert "useless: moves that brought less than a tenth" in table.words
    (cluster,) = figures["runs"][0]["clusters"]
    assert (cluster["moved"], cluster["returns"], cluster["useless_moves"]) == (2, 0, None)
    assert cluster["prediction_error_points"] is None
    proof = "Estimated spread 6.9 points after the moves of this round; they move"
    assert proof in page.read_text("utf-8")
