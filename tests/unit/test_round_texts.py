"""What a round proves, as advice and in the output of the real commands on a recording."""

import json
from pathlib import Path

import pytest

from pulsar_rebalancer.decisions.skip_and_certificate_texts import sentences
from strategies.cluster.model import Skip
from strategies.cluster.round_figures import Certificate
from strategies.round.commands_and_record import Proof
from tests.telemetry_lines import bundle, load_report, sweep
from tests.unit.command_line import rebalancer
from tests.world.uneven_log import recorded, uneven

RECORDING = Path(__file__).parents[1] / "data/recordings/modular-broker-killed.jsonl.gz"
STEADY = ("--set", "shedding.strategy=steady")


def test_advice_names_what_helps_where_moves_cannot() -> None:
    full = Skip("cluster", ("c",), "cluster-full", "the brokers are 90 % busy: add 2 brokers")
    large = Skip("bundle", (bundle(1),), "bundle-too-large", "split it", "b:1")
    other = Skip("broker", ("b:1",), "load-without-bundles", "look for other processes")
    quiet, busy = Certificate(0.3, 0.3, 0.0, 0.0), Certificate(0.3, 0.2, 5e6, 4e6)
    assert sentences(Proof(None, None, (full, large, other))) == [
        "Moves cannot help [cluster-full]: the brokers are 90 % busy: add 2 brokers.",
        f"Moves cannot help [bundle-too-large]: {bundle(1)}: split it.",
        "Moves cannot help [load-without-bundles]: b:1: look for other processes.",
    ]
    assert sentences(Proof(quiet, None, (full,)))[1].startswith("Moves cannot help")
    assert sentences(Proof(busy, None, (full,)))[1].startswith("Further moves cannot help")


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
def test_explain_shows_what_is_proven_of_hundreds_of_brokers(tmp_path: Path) -> None:
    """One broker in ten is hot, of 210; the third round moves bundles."""
    names = [f"broker-{number}:1" for number in range(210)]
    log = list[bytes]()
    for minute in range(3):
        for number, name in enumerate(names):
            hot = number % 10 == 0
            rate = (20.0 if hot else 5.0) + minute
            loads = {bundle(row, f"t/ns{number}"): rate for row in range(9)}
            cpu = (80.0 if hot else 20.0) + minute
            log.append(load_report(name, 60 * minute + number / 10, loads, cpu=cpu))
        log.append(sweep(60 * minute + 30, *names))
    rebalancer("replay", recorded(tmp_path, log), "--out", tmp_path / "out", *STEADY)

    text = rebalancer("explain", "2", "--from", tmp_path / "out").out

    assert "are necessary.\n" in text


def test_a_certificate_counts_only_moves_that_limits_allow(tmp_path: Path) -> None:
    """The budget allows one of the moves, so the brokers stay further apart than planned."""

    def last(*more: str) -> dict[str, float]:
        folder = tmp_path / str(len(more))
        rebalancer("replay", recorded(tmp_path, uneven(rounds=5)), "--out", folder, *STEADY, *more)
        rounds = map(json.loads, (folder / "rounds.jsonl").read_bytes().splitlines())
        busy = next(one for one in rounds if one["commands"])
        return dict(busy["certificate"]) | {"commands": len(busy["commands"])}

    free, limited = last(), last("--set", "limits.moves_per_round=1")

    assert free["commands"] > limited["commands"] == 1
    assert free["moved"] > limited["moved"] > 0
    assert free["spread"] < limited["spread"]


def test_explain_says_nothing_of_a_strategy_without_certificates(tmp_path: Path) -> None:
    rebalancer("replay", RECORDING, "--out", tmp_path, "--set", "shedding.strategy=avg")

    assert "Estimated spread" not in rebalancer("explain", "1", "--from", tmp_path).out
    assert rebalancer("explain", "1", "--from", tmp_path, "--json").json["sentences"] == []


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
