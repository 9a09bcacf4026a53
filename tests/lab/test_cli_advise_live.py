"""`rebalancer advise` on live topics: the same answers, moves that are asked for, and gauges."""

from pathlib import Path

import pytest

from pulsar_rebalancer.lab.advise.advice import gauges
from tests.control_topic import Control
from tests.lab.test_cli_advise import log
from tests.unit.command_line import rebalancer
from tests.unit.folding_job import FoldingJob
from tests.unit.metric_samples import get, scraped
from tests.unit.test_metrics_commands import served
from tests.world.uneven_log import recorded
from tools.processes.set_words import set_words
from tools.waiting import eventually

OF_GAUGES = ("recommended_brokers", "removable_brokers", "last_advice_timestamp_seconds")


@pytest.mark.heavy
def test_the_telemetry_topic_is_advised_on_as_its_recording(tmp_path: Path) -> None:
    lines = log(lambda at, minute: 900.0 + minute if at % 4 == 0 else 200.0)
    control = Control(tmp_path)
    control.write("telemetry", lines)
    question = ("--plan-for", "peak", "--at-most", 0.3, "--json")
    live = rebalancer("advise", *question, *set_words(control.settings()))
    assert live.json == rebalancer("advise", recorded(tmp_path, lines), *question).json
    assert live.json["peak"]["moves"]


def test_a_topic_without_reports_is_an_error(tmp_path: Path) -> None:
    answer = rebalancer("advise", *set_words(Control(tmp_path).settings()))
    assert (answer.code, "no load report on" in answer.words) == (1, True)


@pytest.mark.heavy
def test_moves_for_the_peak_are_asked_for_and_done(tmp_path: Path) -> None:
    control = Control(tmp_path)
    job = FoldingJob(control, ("a:1", "b:1", "c:1"))
    job.owners = dict.fromkeys(job.owners, "a:1")  # at 40 %, beside two at 10 %
    with job.running():
        words = ["advise", "--plan-for", "peak", "--at-most", "0.35", "--ask", "--by", "anna"]
        words += set_words(control.settings())
        shown = rebalancer(*words, "--json")
        assert (shown.code, [one["destination"] for one in shown.json["moves"]]) == (6, ["b:1"])
        assert {*job.owners.values()} == {"a:1"}
        done = rebalancer(*words, "--yes")
        assert done.code == 0, done.words
        assert sorted(job.owners.values()) == ["a:1"] * 5 + ["b:1"]


def of_four(found: int | None, *, hours: float = 30, least: int = 2) -> list[float]:
    brokers = {"present": 4, "needed": {"found": found, "least": least}}
    return [*gauges({"begins_ms": 1_000, "hours": hours, "brokers": brokers}).values()][:2]


def test_gauges_never_say_that_more_may_go_than_a_plan_of_a_day_has_shown() -> None:
    assert [of_four(3), of_four(4), of_four(6)] == [[3, 1], [4, 0], [6, 0]]
    assert [of_four(None), of_four(None, least=7)] == [[4, 0], [7, 0]]
    assert [of_four(3, hours=23), of_four(6, hours=23)] == [[4, 0], [6, 0]]


@pytest.mark.heavy
def test_gauges_are_served_and_age_when_the_telemetry_is_lost(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.write("telemetry", log(lambda at, minute: 800.0, minutes=25 * 60))
    words = set_words(control.settings(metrics__listen="127.0.0.1:0", log__format="json"))
    with served("advise", "--every", "0.001", *words) as address:

        def served_gauges() -> list[float]:
            found = scraped(get(address, "/metrics")[2])
            return [found[f"pulsar_rebalancer_{name}", "c"] for name in OF_GAUGES]

        eventually(lambda: get(address, "/readyz")[0] == 200)
        *counts, ends_s = served_gauges()
        assert counts == [3, 1]
        (tmp_path / "telemetry").rename(tmp_path / "lost")
        eventually(lambda: served_gauges()[1] == 0)
        assert served_gauges() == [3, 0, ends_s]
