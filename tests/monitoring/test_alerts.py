"""Each incident, recorded with the code of the processes, fires its alert and no other."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lanes import variant
from tools.monitoring.incidents import CLOCK, INCIDENTS, Incident
from tools.monitoring.promtool import CONFIG, ROOT, RULES, promtool, rule_test
from tools.monitoring.record import recorded

ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
TEXTS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("alert_texts.yml").read_text("utf-8")
)
#: One incident of each alert, and one without any.
FIRST_OF_EACH = list({one.alert: one for one in reversed(INCIDENTS)}.values())
#: Alerts of what a cluster's newest round or report says.
FROZEN = [one for one in TEXTS if "0+15x200" in str(one["input_series"])]


def test_rules_and_configuration_are_valid() -> None:
    for answer in (promtool("check", "rules", RULES), promtool("check", "config", CONFIG)):
        assert answer.returncode == 0, answer.stdout + answer.stderr


def passes(test: str, folder: Path) -> None:
    """Fails unless the rules pass this test of `promtool`."""
    file = folder / "test.yml"
    file.write_text(test, "utf-8")
    answer = promtool("test", "rules", file)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_there_is_an_incident_for_each_alert() -> None:
    assert {one["alert"] for one in ALERTS} == {one.alert for one in INCIDENTS if one.alert}
    assert len(ALERTS) == 12


@pytest.mark.parametrize(
    "incident",
    [one if one in FIRST_OF_EACH else variant(one) for one in INCIDENTS],
    ids=[one.name for one in INCIDENTS],
)
def test_an_incident_fires_its_alert_and_no_other(incident: Incident, tmp_path: Path) -> None:
    passes(recorded(incident, tmp_path), tmp_path)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["for"]
    assert alert["annotations"].keys() == {"summary", "description", "action", "runbook"}
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    headings = (ROOT / page).read_text("utf-8").splitlines()
    assert f"### {anchor.replace('-', ' ').capitalize()}" in headings


def test_each_text_is_expected_of_an_alert() -> None:
    assert {one["alert"] for one in TEXTS} == {one["alert"] for one in ALERTS}
    assert sum(one["alert"] == CLOCK for one in TEXTS) == 2
    assert len(FROZEN) == 7


@pytest.mark.parametrize("text", TEXTS, ids=lambda one: f"{one['alert']}-{one['eval_time']}")
def test_the_texts_of_a_firing_alert(text: dict[str, Any], tmp_path: Path) -> None:
    """The series are made by hand, so that all values in the texts are known."""
    (rule,) = (one for one in ALERTS if one["alert"] == text["alert"])
    constant = {name: rule["annotations"][name] for name in ("action", "runbook")}
    expected = {
        "exp_labels": {**text["labels"], **rule["labels"]},
        "exp_annotations": {**constant, **text["annotations"]},
    }
    at, name = text["eval_time"], text["alert"]
    entry = {"eval_time": at, "alertname": name, "exp_alerts": [expected]}
    passes(rule_test(text["input_series"], 15, alert_rule_test=[entry]), tmp_path)


@pytest.mark.parametrize("text", FROZEN, ids=lambda one: one["alert"])
def test_what_a_removed_cluster_had_last_fires_no_alert(
    text: dict[str, Any], tmp_path: Path
) -> None:
    """Ten minutes of rounds, and then none. The job keeps the series until the cluster's rows leave
    the state.
    """
    stops = {"0+15x200": "0+15x40 600+0x400"}
    series = [
        {**one, "values": stops.get(one["values"], one["values"].replace("x200", "x440"))}
        for one in text["input_series"]
    ]
    entry = {"eval_time": "90m", "alertname": text["alert"], "exp_alerts": []}
    passes(rule_test(series, 15, alert_rule_test=[entry]), tmp_path)
