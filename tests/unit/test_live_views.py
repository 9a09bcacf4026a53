"""What the live page shows: words, figures and pictures in a size that does not grow with the
cluster.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace

import numpy as np
import orjson

from pulsar_rebalancer.decisions.live import pictures, views
from pulsar_rebalancer.decisions.live.fold import LiveFold
from pulsar_rebalancer.decisions.live.plans_and_search import PlanSettings, answer, plans
from pulsar_rebalancer.decisions.live.snapshot import LiveCluster, LiveSnapshot, TopicHealth
from pulsar_rebalancer.decisions.status import TelemetryHead
from sinks.wire.encoding import encode_command
from sinks.wire.operator_records import command_digest
from strategies.cluster.intent_contract import IntentStatus
from strategies.executor.approvals import ApprovalOutcome
from tests.live_topics import MadeUpCluster

NOW = 1_795_000_000_000
SETTINGS = views.ViewSettings()


def cluster(made: MadeUpCluster, now_ms: int = NOW) -> LiveCluster:
    (found,) = folded(made).clusters(now_ms).values()
    return found


def folded(made: MadeUpCluster) -> LiveFold:
    fold = LiveFold()
    for done, commands, outcomes in made.made():
        fold.add_round(done)
        for one in commands:
            fold.add_command(one, command_digest(encode_command(one)))
        for given in outcomes:
            fold.add_outcome(given)
    return fold


def test_the_page_shows_the_newest_attempt_of_a_job_that_starts() -> None:
    said = "attempt 2 failed after 14 s"
    before = LiveFold()
    before.add_telemetry(TelemetryHead("c", NOW, "sweep", ["a:1"]))
    (one,) = before.clusters(NOW).values()
    first = views.overview(one, SETTINGS, False, said)
    assert first["empty"] == "No round yet. The job starts: attempt 2 failed after 14 s."
    assert first["health"][1]["late"] == first["empty"]
    again = views.overview(cluster(MadeUpCluster(NOW)), SETTINGS, False, said)
    assert again["empty"] == ""
    assert again["health"][1]["late"] == "The job starts: attempt 2 failed after 14 s."
    nobody = views.clusters(LiveSnapshot(starting=said), SETTINGS)
    assert nobody["empty"].endswith("The job starts: attempt 2 failed after 14 s.")
    assert views.overview(one, SETTINGS, False)["empty"] == views.NO_ROUND


def test_the_first_screen_has_state_advice_and_time() -> None:
    one = cluster(MadeUpCluster(NOW, cluster="c", waits=False))

    found = views.overview(one, SETTINGS, False)

    newest = one.decisions.rounds[-1].round
    assert newest.state is not None
    assert found["state"] == {
        "code": newest.state.code,
        "text": newest.state.text,
        "advice": newest.state.advice,
    }
    assert (found["newest"]["round"], found["newest"]["ts"]) == (60, NOW)
    assert found["late_after_ms"] == NOW + 3 * 60_000 + 15_000
    assert found["empty"] == found["paused"] == ""


def test_without_a_round_the_page_says_what_is_missing_and_what_to_do() -> None:
    fold = LiveFold()
    fold.add_telemetry(TelemetryHead("c", NOW, "sweep", ["a:1"], {"b:1": "timed out"}))
    (one,) = fold.clusters(NOW).values()

    found = views.overview(one, SETTINGS, None)

    assert found["state"] is None
    assert found["empty"].startswith("No round yet. The first collection pass closes")
    collector, job, executor = found["health"]
    assert collector["fresh"] == (
        "1 broker answered the newest pass; without an answer: b:1 (timed out)."
    )
    assert collector["doubt"]
    assert job["late"] == found["empty"]
    assert executor["fresh"].startswith("No outcome yet")
    assert views.brokers(one)["names"] == []
    assert pictures.usage_over_time(one)["times"] == []
    assert pictures.bundles_over_time(one)["rows"] == []
    empty = views.clusters(LiveSnapshot(topics=(TopicHealth("rounds", "file:///x"),)), SETTINGS)
    assert "No cluster yet. Start `rebalancer collect`" in empty["empty"]


def test_brokers_are_listed_by_usage_with_what_is_expected() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=20))
    newest = one.decisions.rounds[-1].round

    found = views.brokers(one)

    assert found["usage"] == sorted(found["usage"], reverse=True)
    assert set(found["names"]) == set(newest.brokers)
    first = found["names"][0]
    assert found["usage"][0] == round(1_000 * newest.usage[first])
    assert found["after"][0] == round(1_000 * newest.usage_after[first])
    assert found["after"][0] < found["usage"][0]


def test_the_map_of_usage_has_a_row_per_broker_and_a_column_per_round() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=30))

    found = pictures.usage_over_time(one)

    cells = np.frombuffer(b64decode(found["cells"]), np.uint8).reshape(12, 30)
    assert [row["name"].split(".")[0] for row in found["rows"]] == [
        f"broker-{n}" for n in range(12)
    ]
    for column, kept in enumerate(one.decisions.rounds):
        for row, name in enumerate(row["name"] for row in found["rows"]):
            assert abs(cells[row, column] / 200 - kept.round.usage[name]) < 0.006
    assert found["lines"][0][-1] == round(1_000 * one.decisions.rounds[-1].usage[0])


def test_the_map_of_many_brokers_shows_the_highest_of_each_group_and_stays_small() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=1_000, rounds=12))

    found = pictures.usage_over_time(one)

    cells = np.frombuffer(b64decode(found["cells"]), np.uint8).reshape(pictures.MOST_ROWS, 12)
    assert sum(row["count"] for row in found["rows"]) == 1_000
    assert found["lines"] == []
    newest = one.decisions.rounds[-1].round
    highest = max(newest.usage.values())
    assert cells[:, -1].max() == round(200 * highest)
    assert found["levels"][-1][0] == round(1_000 * highest)
    assert found["levels"][-1][-1] == round(1_000 * min(newest.usage.values()))


def test_an_unknown_usage_is_no_zero() -> None:
    made = [done for done, _, _ in MadeUpCluster(NOW, cluster="c", brokers=3, rounds=2).made()]
    usage = {name: value for name, value in made[1].usage.items() if name != made[1].brokers[1]}
    fold = LiveFold()
    fold.add_round(made[0])
    fold.add_round(replace(made[1], brokers=tuple(usage), usage=usage, usage_after=usage))
    (one,) = fold.clusters(NOW).values()

    cells = b64decode(pictures.usage_over_time(one)["cells"])

    assert cells[3] == pictures.UNKNOWN
    assert pictures.UNKNOWN not in (cells[2], cells[4], cells[5])


def test_figures_that_no_browser_can_read_do_not_break_the_page() -> None:
    made = [done for done, _, _ in MadeUpCluster(NOW, cluster="c", brokers=3, rounds=1).made()]
    usage = dict(zip(made[0].brokers, (float("inf"), 1e300, -5.0), strict=True))
    fold = LiveFold()
    fold.add_round(replace(made[0], usage=usage, usage_after=usage))
    (one,) = fold.clusters(NOW).values()

    for found in (views.brokers(one), pictures.usage_over_time(one)):
        assert b"Infinity" not in orjson.dumps(found)


def test_bundles_are_listed_by_their_newest_command_with_the_answer() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=300))

    found = pictures.bundles_over_time(one)

    assert len(found["columns"]) == pictures.MOST_COLUMNS
    newest = {one.bundle for one in one.decisions.log.commands if one.round == 300}
    assert {row["bundle"] for row in found["rows"][: len(newest)]} == newest
    assert sum(cell[2] for cell in found["cells"]) == len(one.decisions.log.commands)
    last = [
        cell for cell in found["cells"] if cell[0] == 0 and cell[1] == pictures.MOST_COLUMNS - 1
    ]
    assert found["answers"][last[0][3]] == "open"


def test_history_is_newest_first_and_counts_answers() -> None:
    one = cluster(MadeUpCluster(NOW, brokers=12, rounds=60))

    found = views.history(one)

    assert [row["round"] for row in found["rounds"]] == list(range(60, 0, -1))
    assert found["rounds"][0]["answers"] == {"open": 6}
    acted = found["rounds"][15]
    assert sum(acted["answers"].values()) == acted["commands"] == 6
    assert set(acted["answers"]) == {"applied", "refused", "dry-run"}
    assert views.history(one, found["version"])["rounds"] == []


def test_a_search_answers_with_the_words_of_explain() -> None:
    one = cluster(MadeUpCluster(NOW, cluster="c", brokers=6, rounds=40))
    command = next(iter(one.decisions.log.commands))

    bundle, broker = answer(one, command.bundle), answer(one, command.source)

    assert (bundle["found"], bundle["kind"]) == (True, "bundle")
    assert any(command.text in line for line in bundle["lines"])
    assert broker["lines"][0] == f"broker {command.source}"
    assert broker["lines"][1].startswith("  round 40 of c, ")
    assert broker["lines"][-1] == "  (20 earlier rounds not shown)"
    assert answer(one, "40", 1)["lines"][0].startswith("round 40 of cluster c, epoch 1")
    assert answer(one, "")["kind"] == "latest"
    missing = answer(one, "no-such-broker:1")
    assert not missing["found"]
    assert "do not mention it" in missing["lines"][0]


def test_a_plan_waits_for_a_person_until_one_decides() -> None:
    made = MadeUpCluster(NOW, cluster="c", brokers=6, rounds=15)
    one = cluster(made)

    found = plans(one, PlanSettings(required=True))

    (waiting,) = found["open"]
    assert (waiting["state"], waiting["total"], waiting["complete"]) == ("waiting", 3, True)
    assert waiting["spread_after"] < waiting["spread_before"]
    assert [given["answer"] for given in waiting["commands"]] == ["open"] * 3
    assert "waits for approval" in " ".join(
        answer(one, waiting["commands"][0]["bundle"], approval_required=True)["lines"]
    )
    assert plans(cluster(made, NOW + 400_000), PlanSettings())["open"] == []


def test_a_pause_names_the_person_and_the_reason() -> None:
    fold = folded(MadeUpCluster(NOW, cluster="c"))
    fold.add_answer(ApprovalOutcome("1", "c", "pause", None, "Grace", "accepted", None, NOW))
    (one,) = fold.clusters(NOW).values()

    found = views.overview(one, SETTINGS, False)

    assert found["paused"].startswith("Grace paused the executor")
    assert found["health"][2]["fresh"].startswith("Paused, it refuses all commands: Grace")
    assert plans(one, PlanSettings())["pause"]["paused"]


def test_the_executor_shows_what_happened_to_the_newest_answered_commands() -> None:
    found = views.overview(cluster(MadeUpCluster(NOW, brokers=12, waits=False)), SETTINGS, False)

    executor = found["health"][2]

    assert executor["fresh"].startswith("Of the commands of round 53: ")
    assert "3 applied, 1 dry-run, 1 failed, 1 refused; shop/orders-" in executor["fresh"]
    assert executor["doubt"]


def test_commands_without_an_answer_say_that_no_executor_runs() -> None:
    late = views.overview(cluster(MadeUpCluster(NOW), NOW + 400_000), SETTINGS, False)

    executor = late["health"][2]

    assert "4 commands of the newest plan expired without an answer" in executor["fresh"]
    assert "`rebalancer execute`" in executor["fresh"]
    assert executor["doubt"]


def test_drains_and_rolls_are_those_of_the_newest_round() -> None:
    made, fold = MadeUpCluster(NOW, cluster="c", waits=False), LiveFold()
    rounds = [done for done, _, _ in made.made()]
    drain = IntentStatus(
        "d", "drain", "blocked", "none may move [budget]", "Wait.", "anna", "disks", 1, 2, "a:1",
        until_ms=9, left=3, total=9,
    )  # fmt: skip
    roll = IntentStatus(
        "r", "roll", "rolling", "0 of 2 brokers are restarted", "Nothing to do.", "bo", "4.2.5",
        1, 2, phases={"b:1": "waiting", "a:1": "draining"},
    )  # fmt: skip
    for done in (*rounds[:-1], replace(rounds[-1], intents=(roll, drain))):
        fold.add_round(done)
    (one,) = fold.clusters(NOW).values()
    first, second = views.overview(one, SETTINGS, None)["intents"]
    assert (first["what"], first["phases"]) == (
        "roll of 2 brokers",
        {"a:1": "draining", "b:1": "waiting"},
    )
    assert (second["what"], second["state"], second["advice"]) == ("drain a:1", "blocked", "Wait.")
    assert (second["left"], second["total"], second["by"]) == (3, 9, "anna")
    assert (first["until_ms"], second["until_ms"]) == (None, 9)
    assert views.overview(cluster(MadeUpCluster(NOW)), SETTINGS, None)["intents"] == []
