"""`rebalancer upgrade-preview`: figures equal to two separate back-tests, the sentences, the lines
that keep today's behaviour, and what is refused.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from math import nan
from pathlib import Path
from typing import Any

import pytest

from pulsar_rebalancer.lab.simulation.timeline import Move, Timeline
from pulsar_rebalancer.lab.upgrade_preview.upgrade_effects import RunEffects, details, headline
from pulsar_rebalancer.settings.broker_conf.upgrade import Upgrade
from tests.lab.test_columnar_fold import an_hour
from tests.separate_back_tests import DAY_MS, MINUTE_MS, check_defaults
from tests.unit.command_line import Answer, rebalancer
from tests.unit.test_broker_conf import AVG, STOCK, written
from tests.world.timelines import A, B, a_run

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests/data/recordings"
SHARED = ROOT.parent / "shared" / "recordings"
#: Rounds of ten seconds and thresholds that short recordings exceed.
EAGER = (
    "loadBalancerAvgShedderHitCountLowThreshold=1",
    "loadBalancerAvgShedderHitCountHighThreshold=1",
    "loadBalancerAvgShedderLowThreshold=5",
    "loadBalancerBrokerThresholdShedderPercentage=1",
    "loadBalancerBundleUnloadMinThroughputThreshold=0",
    "minUnloadMessage=1",
)
FAST = "round.interval_ms=10000"


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A modelled hour in which one bundle grows."""
    return stored(tmp_path_factory.mktemp("hour") / "hour.jsonl", an_hour())


def stored(file: Path, lines: Iterable[bytes]) -> Path:
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    return file


def in_cluster(name: str, line: bytes) -> bytes:
    return json.dumps(json.loads(line) | {"cluster": name}).encode()


def preview(*words: object) -> Answer:
    return rebalancer("upgrade-preview", *words)


@pytest.mark.heavy
def test_the_figures_are_those_of_two_separate_back_tests(hour: Path) -> None:
    assert check_defaults(hour) == [7, 12]


@pytest.mark.parametrize("name", ["modular-broker-joins", "modular-broker-killed"])
@pytest.mark.lab
def test_also_on_recordings_of_real_clusters(name: str) -> None:
    assert check_defaults(RECORDINGS / f"{name}.jsonl.gz", FAST) == [0, 0]


@pytest.mark.lab
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared recordings are not here")
@pytest.mark.parametrize(
    "name", ["modular-steady-uneven", "modular-jitter-consumer", "modular-broker-killed"]
)
def test_also_on_the_shared_recordings(name: str) -> None:
    assert len(check_defaults(SHARED / f"{name}.jsonl.gz", FAST)) == 2


@pytest.mark.lab
def test_a_broker_conf_is_run_under_both_versions_beside_the_defaults(
    hour: Path, tmp_path: Path
) -> None:
    conf = written(tmp_path, AVG, "maxUnloadPercentage=0.3", *EAGER)
    runs = preview(hour, "--json", "--broker-conf", conf).json["runs"]
    assert [(run["of"], run["version"], run["strategy"]) for run in runs] == [
        ("broker.conf", "4.2", "avg"),
        ("broker.conf", "5.0", "avg"),
        ("defaults", "4.2", "threshold"),
        ("defaults", "5.0", "avg"),
    ]
    assert runs[0]["clusters"][0]["moved"] != runs[2]["clusters"][0]["moved"]


@pytest.mark.parametrize("lines", [(STOCK,), (AVG, *EAGER), EAGER])
@pytest.mark.lab
def test_the_printed_lines_keep_what_the_cluster_does_today(
    hour: Path, tmp_path: Path, lines: Sequence[str]
) -> None:
    conf = written(tmp_path, *lines)
    first = preview(hour, "--json", "--broker-conf", conf).json
    conf = written(tmp_path, *lines, *first["upgrade"]["lines"])
    kept = preview(hour, "--json", "--broker-conf", conf).json
    assert moves(kept, 0) == moves(kept, 1) == moves(first, 0) != []
    assert moves(first, 0) != moves(first, 1)
    assert " both move " in kept["clusters"][0]["text"]


def moves(document: dict[str, Any], run: int) -> list[Any]:
    found: list[Any] = document["runs"][run]["clusters"][0]["moves"]
    return found


@pytest.mark.lab
def test_json_has_effects_sentences_keys_and_lines(hour: Path) -> None:
    found = preview(hour, "--json").json
    assert (found["kind"], found["v"], found["upgrade"]["to"]) == ("upgrade-preview", 1, "5.0")
    before, after = (run["clusters"][0]["effects"] for run in found["runs"])
    assert before["moves_per_day"] is None
    assert (before["bundles_moved"], after["bundles_moved"]) == (7, 12)
    assert after["clients_disturbed"] == 8 * 12
    assert after["most_moves_in_a_round"] == max(
        sum(move["ts"] == one["ts"] for move in moves(found, 1)) for one in moves(found, 1)
    )
    assert found["clusters"][0]["text"].startswith("In a simulation of the recorded 60 min of ")
    assert len(found["upgrade"]["lines"]) == 4


@pytest.mark.lab
def test_the_page_begins_with_the_same_sentence_and_has_the_lines(
    hour: Path, tmp_path: Path
) -> None:
    page = tmp_path / "upgrade.html"
    answer = preview(hour, "--json", "--html", page)
    assert answer.code == 0, answer.err
    text = page.read_text("utf-8")
    assert f'<h1 id="headline">{answer.json["clusters"][0]["text"]}</h1>' in text
    assert all(line in text for line in answer.json["upgrade"]["lines"])
    assert "What the upgrade would do" in text


@pytest.mark.lab
def test_several_clusters_are_previewed_one_by_one(tmp_path: Path) -> None:
    hour = islice(an_hour(), 4 * 8)
    lines = [in_cluster(name, line) for line in hour for name in ("east", "west")]
    answer = preview(stored(tmp_path / "two.jsonl", lines))
    assert answer.code == 0, answer.err
    assert "east: In a simulation of the recorded" in answer.words
    assert "west: In a simulation of the recorded" in answer.words


@pytest.mark.lab
def test_the_extensible_load_manager_stays_as_it_is() -> None:
    recording = SHARED / "extensible-steady-uneven.jsonl.gz"
    if not recording.exists():
        pytest.skip("the shared recordings are not here")
    found = preview(recording, "--json").json
    assert [run["strategy"] for run in found["runs"]] == ["transfer", "transfer"]
    assert moves(found, 0) == moves(found, 1)
    assert found["upgrade"]["lines"] == []


@pytest.mark.lab
def test_switched_off_shedding_is_said(hour: Path, tmp_path: Path) -> None:
    conf = written(tmp_path, "loadBalancerSheddingEnabled=false")
    answer = preview(hour, "--broker-conf", conf)
    assert (
        "broker.conf sets loadBalancerSheddingEnabled=false: Pulsar itself moves nothing, before "
        "and after." in answer.words
    )


@pytest.mark.lab
def test_a_recording_of_another_load_manager_or_version_is_said(hour: Path, tmp_path: Path) -> None:
    extensible = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
    conf = written(tmp_path, f"loadManagerClassName={extensible}")
    answer = preview(hour, "--broker-conf", conf)
    assert "The recorded brokers run the modular load manager" in answer.words
    real = RECORDINGS / "modular-broker-joins.jsonl.gz"
    answer = preview(real, "--from", "5.0", "--to", "4.2")
    assert "warning: --from is 5.0, but in the recording" in answer.err
    assert answer.out.startswith("In a simulation of the recorded 6 min of")


@pytest.mark.lab
def test_a_recording_without_load_is_a_sentence(tmp_path: Path) -> None:
    sweeps = [line for line in islice(an_hour(), 5 * 8) if b'"kind":"sweep"' in line]
    answer = preview(stored(tmp_path / "sweeps.jsonl", sweeps))
    assert answer.code == 1
    assert "no broker has load in any round; record the brokers' load reports too" in answer.words
    assert "nan" not in answer.words


@pytest.mark.lab
def test_a_cluster_without_load_has_no_sentence(tmp_path: Path) -> None:
    lines = [*islice(an_hour(), 5 * 8)]
    lines += [in_cluster("east", line) for line in lines if b'"kind":"sweep"' in line]
    found = preview(stored(tmp_path / "some.jsonl", lines), "--json").json
    assert [one["cluster"] for one in found["clusters"]] == ["c1"]
    assert [one["cluster"] for one in found["runs"][0]["clusters"]] == ["c1", "east"]


@pytest.mark.lab
def test_a_recording_from_standard_input_is_read_once(hour: Path) -> None:
    piped = rebalancer("upgrade-preview", "-", "--json", stdin=hour.read_bytes())
    assert piped.code == 0, piped.err
    assert piped.json["runs"] == preview(hour, "--json").json["runs"]


@pytest.mark.lab
def test_clusters_of_both_load_managers_are_previewed_one_by_one(tmp_path: Path) -> None:
    """An extensible broker's figures and bundles come in records of their own."""
    figures = json.loads((ROOT / "tests/data/broker-load-data-5.0.0-M1.json").read_text("utf-8"))
    other = {"cluster": "east", "kind": "broker-load-data", "report": figures}
    records = [json.loads(line) for line in islice(an_hour(), 4 * 8)]
    lines = [
        json.dumps(record | more).encode()
        for record in records
        for more in ({}, other if record["kind"] == "load-report" else {"cluster": "east"})
    ]
    answer = preview(stored(tmp_path / "both.jsonl", lines))
    assert answer.code == 1
    assert (
        "the clusters of the recording run different load managers (c1 the modular, east the "
        "extensible); make a recording of each" in answer.words
    )


def timeline(spread: float, moved: int, *, days: int = 2, clients: float = 3.0) -> Timeline:
    """A run of whole days in which bundles move in the first round."""
    usage = [(0.5, 0.5 - spread / 100)] * (days * DAY_MS // MINUTE_MS)
    moves = [Move(0, 0, f"t/n/{n}", A, B, "unload", clients=clients) for n in range(moved)]
    return a_run(usage, moves, kind="re-assigned")


_MOVED = "groups of topics (bundles) between brokers"
_APART = "percentage points of load apart on average with"


@pytest.mark.parametrize(
    ("spreads", "moved", "moves", "points"),
    [
        ((20.0, 12.0), (6, 2_800), "Pulsar 5.0 moves {} 2,800 times, Pulsar 4.2 6 times", None),
        ((5.0, 5.0), (0, 1), "Pulsar 5.0 moves {} once, Pulsar 4.2 never", f"5.0 {_APART} both"),
        ((5.0, 6.0), (3, 3), "Pulsar 5.0 and Pulsar 4.2 both move {} 3 times", None),
        ((5.0, 5.0), (0, 0), "neither Pulsar 5.0 nor Pulsar 4.2 moves {}", f"5.0 {_APART} both"),
    ],
    ids=["more", "from-nothing", "same", "nothing"],
)
def test_the_first_sentence(
    spreads: tuple[float, float], moved: tuple[int, int], moves: str, points: str | None
) -> None:
    before, after = (RunEffects(timeline(*one)) for one in zip(spreads, moved, strict=True))
    points = points or f"{spreads[1]} {_APART} Pulsar 5.0, {spreads[0]} with Pulsar 4.2"
    said = headline(Upgrade({}, "4.2", "5.0"), "default settings", before, after)
    assert said == (
        "In a simulation of the recorded 2 days of your cluster, with default settings, "
        f"{moves.format(_MOVED)}; the fullest and the emptiest broker are {points}."
    )


def test_clients_that_no_report_counts_are_not_guessed() -> None:
    upgrade, unknown = Upgrade({}, "4.2", "5.0"), RunEffects(timeline(5, 2, clients=nan))
    assert "reconnect" not in details(upgrade, unknown, unknown)
    assert unknown.effects_as_json()["clients_disturbed"] is None
    counted = RunEffects(timeline(5, 2))
    assert "because their bundle moves, 6 times with both." in details(upgrade, counted, counted)
