"""`rebalancer advise`, from a recording to its answers; and what may be in the way."""

import json
from collections.abc import Callable, Mapping
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from pulsar_rebalancer.lab.advise.sized_cluster import growth_of
from tests.lab.test_report import page_data
from tests.telemetry_lines import (
    broker_load,
    bundle,
    bundle_stats,
    figures,
    line,
    sweep,
    top_bundles,
)
from tests.unit.command_line import Answer, rebalancer
from tests.world.sized_clusters import isolation
from tests.world.uneven_log import recorded

SCRIPT = "</script><img src=x onerror=alert(1)>"
BROKERS = [f"b{at}:8080" for at in range(4)]
Rates = Callable[[int, int], float]


def report(
    broker: str,
    minute: int,
    rates: Mapping[str, float],
    *,
    topics: int = 3,
    idle: float = 4.0,
    speed: float = 1.0,
) -> bytes:
    """A broker that is 4 % busy without traffic, and 1 % of one core more for 100 messages/s in."""
    stats = {name: bundle_stats(rate) | {"topics": topics} for name, rate in rates.items()}
    cpu = {"usage": idle + sum(rates.values()) / 100 / speed, "limit": 100}
    body = figures(sum(rates.values()), 0) | {"cpu": cpu, "numBundles": len(stats)}
    more = {"lastStats": stats, "bundles": list(stats), "loadReportType": "LocalBrokerData"}
    return line("load-report", 60 * minute, broker=broker, report=body | more)


def log(
    rate: Rates, minutes: int = 30, brokers: int = 4, bundles: int = 16, **more: float
) -> list[bytes]:
    """One pass a minute. `rate`: bundle, minute → messages/s; bundles are on brokers by turns."""
    lines = []
    for minute in range(minutes):
        for row in range(brokers):
            rates = {bundle(at): rate(at, minute) for at in range(row, bundles, brokers)}
            lines.append(report(BROKERS[row], minute, rates, **more))  # type: ignore[arg-type]
        lines.append(sweep(60 * minute + 1, *BROKERS[:brokers]))
    return lines


def advised(folder: Path, lines: list[bytes], *words: object) -> Answer:
    return rebalancer("advise", recorded(folder, lines), *words)


def test_steady_load_needs_as_many_brokers_as_it_fills_and_one_more(tmp_path: Path) -> None:
    # 1.28 brokers of work, at most 81 points each: two, and one that may die.
    answer = advised(tmp_path, log(lambda at, minute: 800.0), "--json").json
    first = "The Pulsar cluster c has 4 servers (brokers) and needs 3 to stay below 85 % busy "
    assert answer["text"].startswith(f"{first}even if one of them fails: 1 can be removed.")
    brokers = answer["brokers"]
    assert (brokers["recorded"]["found"], brokers["needed"]["found"]) == (3, 3)
    assert [one["may_go"] for one in brokers["each"]] == ["yes"] * 4
    assert brokers["doubled"]["found"] == 5
    assert answer["margin"]["load"] == pytest.approx(0, abs=1e-3)
    moved = [one for one in brokers["commands"] if one.startswith("rebalancer move ")]
    assert len(moved) == 4
    assert brokers["commands"][-1].startswith("rebalancer drain b")
    assert answer["bundles"]["splits"] == 0


def test_brokers_that_may_each_go_alone_may_not_all_go_together(tmp_path: Path) -> None:
    words = ["--may-go", BROKERS[1], "--may-go", BROKERS[0], "--json"]
    brokers = advised(tmp_path, log(lambda at, minute: 800.0), *words).json["brokers"]
    assert [one["may_go"] for one in brokers["each"]] == ["yes", "yes"]
    assert brokers["together"] == [BROKERS[1]]
    assert [one for one in brokers["commands"] if " drain " in one] == brokers["commands"][-1:]


def test_who_may_go_counts_on_no_speed_that_brokers_may_not_have(tmp_path: Path) -> None:
    """No broker uses anything without traffic. Alone, one with 94 % of work and a speed of 0.89 is
    overloaded.
    """
    speeds, rates = (1.19, 0.89, 0.89), (4403.0, 2848.0, 2136.0)
    lines = [
        report(
            broker,
            minute,
            {bundle(4 * row + at): rates[row] / 4 for at in range(4)},
            idle=0.0,
            speed=speeds[row],
        )
        for minute in range(30)
        for row, broker in enumerate(BROKERS[:3])
    ]
    brokers = advised(tmp_path, lines, "--json").json["brokers"]
    assert "yes" not in [one["may_go"] for one in brokers["each"]]
    assert brokers["needed"]["found"] == 3


def test_the_only_broker_may_not_go(tmp_path: Path) -> None:
    answer = advised(tmp_path, log(lambda at, minute: 100.0, brokers=1), "--json").json
    (one,) = answer["brokers"]["each"]
    assert (one["may_go"], one["dies"], answer["brokers"]["needed"]["found"]) == ("no", None, 2)


def test_twice_the_load_needs_no_fewer_brokers_even_if_a_bundle_is_then_too_large(
    tmp_path: Path,
) -> None:
    lines = log(lambda at, minute: 4500.0 if at % 2 else 1500.0, brokers=3, bundles=8)
    brokers = advised(tmp_path, lines, "--json").json["brokers"]
    assert (brokers["needed"]["found"], brokers["doubled"]["too_large"]) == (5, True)
    assert brokers["doubled"]["least"] == 5


def test_brokers_are_live_whose_last_report_begins_a_long_step(tmp_path: Path) -> None:
    times = [0, 49 * 60]
    lines = [report(one, time, {bundle(0): 9.0}) for time in times for one in BROKERS]
    assert len(advised(tmp_path, lines, "--json").json["brokers"]["each"]) == 4


def test_records_out_of_order_give_the_same_advice(tmp_path: Path) -> None:
    lines = log(lambda at, minute: 200.0 + 30 * minute)[:-1]
    texts = [advised(tmp_path, some, "--json").json["text"] for some in (lines, lines[::-1])]
    assert texts[0] == texts[1]


def test_launches_are_carried_together_with_the_margin(tmp_path: Path) -> None:
    # 100 messages/s in are 102,400 bytes/s: each launch takes 0.4 of a broker.
    words = [f"--expect=a/{name}=4.1MB/s,partitions=64" for name in "bcde"]
    lines = log(lambda at, minute: 400.0 + 20 * minute)
    answer = advised(tmp_path, lines, "--json", *words).json
    growth, peak = 1 + answer["margin"]["load"], 16 * 980 / 10_000
    expected = 1 + ceil(growth * (peak + 4 * 0.4) / 0.81)
    assert [one["brokers"]["found"] for one in answer["launches"]] == [expected] * 4


def test_a_broker_that_is_needed_may_not_go(tmp_path: Path) -> None:
    lines = log(lambda at, minute: 1300.0)
    answer = advised(tmp_path, lines, "--may-go", BROKERS[0], "--json").json
    (one,) = answer["brokers"]["each"]
    assert (one["may_go"], one["dies"]) == ("no", pytest.approx(0.84, abs=0.01))
    assert answer["brokers"]["commands"] == []


def test_what_a_broker_does_not_list_counts_as_one_bundle(tmp_path: Path) -> None:
    lines = [
        one
        for minute in range(10)
        for broker in BROKERS[:2]
        for one in (
            broker_load(broker, 60 * minute, bundle_count=9),
            top_bundles(broker, 60 * minute + 1, {bundle(BROKERS.index(broker)): 100.0}),
        )
    ]
    answer = advised(tmp_path, lines, "--json").json
    assert [one["bundles"] for one in answer["brokers"]["each"]] == [2, 2]
    assert [one["namespace"] for one in answer["bundles"]["namespaces"]] == ["t/ns"]
    assert answer["bundles"]["namespaces"][0]["cuts"] is None
    assert "not listed" not in "".join(answer["brokers"]["commands"])


def test_a_broker_that_lists_no_bundle_carries_what_its_figures_say(tmp_path: Path) -> None:
    lines = [broker_load(one, 60 * at, bundle_count=2) for at in range(9) for one in BROKERS[:3]]
    silent = advised(tmp_path, lines, "--json", "--at-most", 0.7).json
    lines += [top_bundles(one, 541, {bundle(at): 150.0}) for at, one in enumerate(BROKERS[:3])]
    listed = advised(tmp_path, lines, "--json", "--at-most", 0.7).json
    # Three brokers, 50 % busy each: two cannot carry it.
    for each in (silent["brokers"], listed["brokers"]):
        assert [one["may_go"] for one in each["each"]] == ["no"] * 3
        assert [round(one["peak"], 1) for one in each["each"]] == [0.5] * 3


@pytest.mark.parametrize("received", [0.0, 1.0])
def test_what_brokers_do_not_measure_lets_none_go(tmp_path: Path, received: float) -> None:
    def unmeasured(broker: str, usage: float, received: float) -> bytes:
        text = json.loads(report(broker, 0, {bundle(BROKERS.index(broker)): 4000.0}))
        names = "bandwidthOut", "directMemory"
        body = text["report"] | {key: {"usage": 0, "limit": -1} for key in names}
        body |= {"cpu": {"usage": usage, "limit": 100.0 if usage else 0.0}}
        body |= {"bandwidthIn": {"usage": received, "limit": 100.0}}
        return json.dumps(text | {"report": body}).encode()

    lines = [unmeasured(one, 80.0 if at else 0.0, received) for at, one in enumerate(BROKERS)]
    brokers = advised(tmp_path, lines, "--json").json["brokers"]
    assert [one["may_go"] for one in brokers["each"]] == ["no"] * 4
    assert min(one["peak"] for one in brokers["each"]) > 0.7
    answer = advised(tmp_path, [unmeasured(one, 0.0, 0.0) for one in BROKERS])
    assert (answer.code, "no broker has traffic and usage" in answer.words) == (1, True)


def test_one_large_bundle_is_split_or_its_topic_gets_partitions(tmp_path: Path) -> None:
    def rate(at: int, minute: int) -> float:
        return 3000.0 if at == 0 else 200.0

    answer = advised(tmp_path, log(rate), "--json").json
    assert answer["bundles"]["spread"] > 5 > answer["bundles"]["splits"] > 0
    assert f"--bundle {bundle(0).rpartition('/')[2]} " in answer["bundles"]["commands"][0]
    single = advised(tmp_path, log(rate, topics=1), "--json", "--per-partition", 1).json
    assert single["bundles"]["splits"] is None
    (hot,) = single["partitions"]
    assert (hot["bundle"], hot["partitions"]) == (bundle(0), 4)


def test_moves_cost_least_in_the_hours_with_the_least_load(tmp_path: Path) -> None:
    lines = []
    for minute in range(0, 26 * 60, 4):
        night = (minute // 60 + 11) % 24 < 6  # the log begins at 11:06 UTC
        rates = {bundle(0): 100.0 if night else 300.0}
        lines += [report(BROKERS[0], minute, rates), report(BROKERS[1], minute, {bundle(1): 50.0})]
    answer = advised(tmp_path, lines, "--json").json
    assert 1 <= answer["when"]["best"] <= 3
    assert answer["when"]["part"] < 0.8


def hostile(lines: list[bytes]) -> list[bytes]:
    """The records of a cluster and a namespace with names that a browser and a shell would run."""
    renamed = [one.replace(b'"t/ns/', b'"t/$(id)/') for one in lines]
    return [json.dumps({**json.loads(one), "cluster": SCRIPT}).encode() for one in renamed]


def test_the_page_says_what_the_terminal_says_and_draws_usage_and_hours(tmp_path: Path) -> None:
    file = tmp_path / "advice.html"
    lines = hostile(log(lambda at, minute: 900.0 if minute == 20 else 800.0))
    answer = advised(tmp_path, lines, "--per-partition", 0.1, "--html", file)
    data, told = page_data(file.read_text()), " ".join(answer.out.split())
    assert SCRIPT not in file.read_text()
    assert data["verdict"]["level"] == "unsure"
    for text in (data["verdict"]["headline"], *(one["text"] for one in data["sections"])):
        assert " ".join(text.split()) in told
    brokers, bundles, _, when = data["sections"]
    assert [row[0] for row in brokers["sheets"][1]["rows"]] == BROKERS
    assert brokers["commands"][0].startswith("rebalancer move 't/$(id)/0x")
    assert all(one in answer.out for one in brokers["commands"])
    assert max(brokers["chart"]["y"]) == pytest.approx(40)
    assert (bundles["chart"], len(when["chart"]["loads"])) == (None, 1)


def test_policies_of_the_recording_hold(tmp_path: Path) -> None:
    snapshot = json.loads(isolation("t/ns", "b[01]"))
    lines = [line("policies", 0, report=snapshot), *log(lambda at, minute: 100.0)]
    answer = advised(tmp_path, lines, "--json").json
    verdicts = {one["broker"]: one["may_go"] for one in answer["brokers"]["each"]}
    assert verdicts == dict(zip(BROKERS, ["no", "no", "yes", "yes"], strict=True))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--may-go", "x:1"], "--may-go x:1: is none of b0:8080"),
        (["--expect", "t/new=4"], "write for example tenant/ns=120MB/s,partitions=64"),
        (["--expect", "t/ns=4MB/s,partitions=4"], "t/ns exists, or is expected twice"),
        (["--expect=a/b=4MB/s,partitions=4"] * 2, "a/b exists, or is expected twice"),
        (["--ask"], "--ask: needs --plan-for peak"),
        (["--cluster", "other"], "of these clusters: c; name one with --cluster"),
    ],
)
def test_what_cannot_be_answered_is_said(tmp_path: Path, words: list[str], said: str) -> None:
    answer = advised(tmp_path, log(lambda at, minute: 100.0, minutes=3), *words)
    assert (answer.code, said in answer.words) == (2, True)


def test_a_recording_without_traffic_is_an_error(tmp_path: Path) -> None:
    answer = advised(tmp_path, log(lambda at, minute: 0.0, minutes=3))
    assert (answer.code, "no broker has traffic and usage" in answer.words) == (1, True)
    answer = advised(tmp_path, [sweep(1, *BROKERS)])
    assert (answer.code, "no broker's load report is in it" in answer.words) == (1, True)


def test_load_may_rise_from_what_it_was_last_by_as_much_as_it_has_ranged() -> None:
    wave = 1 + 0.5 * np.sin(np.arange(720) / 720 * 2 * np.pi)
    assert growth_of(np.ones(600), 10) == 1
    assert growth_of(wave[180:540], 6) == pytest.approx(1.0, abs=0.02)
    assert growth_of(wave[540:], 3) > growth_of(wave, 12) > 1.2
    assert growth_of(np.tile(wave, 4), 96) == pytest.approx(1.0)
