"""Moves that operators ask for on the live page: what they see first, and what is written."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from sinks.wire.record_decoding import decode
from strategies.cluster.intent_records_and_states import Intent
from tests.control_topic import Control
from tests.live_server import API, OPERATOR, VIEWER, RunningPage, page_of
from tests.telemetry_lines import bundle
from tests.unit.folding_job import SETTINGS, A, B, C, FoldingJob
from tools.waiting import eventually

pytestmark = pytest.mark.heavy


@pytest.fixture
def job(control: Control) -> FoldingJob:
    """Three brokers with two bundles each, after four rounds."""
    return FoldingJob(control, (A, B, C)).after(4)


@pytest.fixture
def page(job: FoldingJob) -> Iterator[RunningPage]:
    """The page of that cluster, with the key of intents, which the job demands."""
    words = [*SETTINGS, *job.demand_signatures()]
    with page_of(job.control.folder, words, tokens=True) as made:
        yield made


def move(to: str = B, **changes: Any) -> dict[str, Any]:
    """The body that moves a bundle; `changes`: other fields."""
    moves = [{"bundle": bundle(0), "to": to}]
    return {"action": "move", "reason": "new disks", "moves": moves, **changes}


def post(
    page: RunningPage, body: object, name: str = "intents", by: str = OPERATOR
) -> httpx.Response:
    url, bearer = f"{page.url}{API}{name}?cluster=c", {"Authorization": f"Bearer {by}"}
    return httpx.post(url, json=body, headers=bearer, timeout=60)


def written(job: FoldingJob) -> list[Intent]:
    values = [one for one in job.control.read("telemetry") if b'"kind":"intent"' in one]
    assert job.intents_key
    assert {job.intents_key.check(one) for one in values} <= {"signed"}
    return [one for value in values if isinstance(one := decode(value, b""), Intent)]


def test_the_record_of_a_move_names_the_operator(page: RunningPage, job: FoldingJob) -> None:
    answer = post(page, move(moves=[{"bundle": bundle(0), "to": C}, {"bundle": bundle(1)}]))

    assert (answer.status_code, answer.json()["by"]) == (202, "Grace")
    one, other = written(job)
    assert [move["id"] for move in answer.json()["moves"]] == [one.id, other.id]
    assert (one.bundle, one.broker, other.bundle, other.broker) == (bundle(0), C, bundle(1), None)
    assert (one.action, one.by, one.reason) == ("move", "Grace", "new disks")


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (move(action="drain"), 400, "'drain'"),
        (move(moves=[]), 400, "length >= 1"),
        (move(moves=[{"bundle": "t/ns"}]), 400, "no bundle name"),
        (move(moves=[{"bundle": bundle(0)}] * 2), 400, "twice"),
        (move(reason=" "), 400, "names a person and a reason"),
        (move(to="z:1"), 409, "[unknown-broker]"),
    ],
)
def test_what_is_no_move_and_what_the_job_would_refuse_is_not_written(
    page: RunningPage, job: FoldingJob, body: dict[str, Any], status: int, sentence: str
) -> None:
    answer = post(page, body)

    said = sentence in answer.json()["error"]
    assert (answer.status_code, said, written(job)) == (status, True, [])


def test_previews_show_both_brokers_and_write_nothing(page: RunningPage, job: FoldingJob) -> None:
    asked = [(bundle(0), C), (bundle(1), A), (bundle(2), "z:1"), (bundle(99), None)]

    answer = post(page, move(moves=[{"bundle": one, "to": to} for one, to in asked]), "preview")

    there, stays, *refused = answer.json()["moves"]
    assert (there["state"], there["from"], there["to"], there["topics"]) == ("moves", A, C, 3)
    assert (there["before"], there["after"]) == ([0.2, 0.2], pytest.approx([0.14, 0.26]))
    assert [one["state"] for one in (stays, *refused)] == ["stays", "refused", "refused"]
    assert all("[unknown-" in one["text"] for one in refused)
    assert (answer.json()["notes"], written(job)) == ([], [])


def test_a_round_is_undone_as_far_as_its_bundles_are_where_it_moved_them(
    page: RunningPage, job: FoldingJob
) -> None:
    post(page, move(moves=[{"bundle": bundle(number), "to": C} for number in range(3)]))
    job.turn()
    number = job.rounds()[-1].round
    job.owners[bundle(1)] = B
    job.turn()
    round_, applied = {"epoch": 1, "round": number}, {"applied": 3}
    rounds = partial(page.get, "rounds", OPERATOR, cluster="c")

    eventually(lambda: rounds().json()["rounds"][1]["answers"] == applied)
    found = page.get("explain", OPERATOR, cluster="c", subject=number).json()["undo"]
    answer = post(page, {"action": "undo", **round_}, "preview").json()
    other = post(page, {"action": "undo", "epoch": 1, "round": number - 1}, "preview")

    shown = {one["bundle"]: (one["state"], one.get("to")) for one in answer["moves"]}
    assert found == {**round_, "moves": 3}
    assert shown == {bundle(0): ("moves", A), bundle(2): ("moves", B), bundle(1): ("stays", None)}
    assert (other.status_code, "has no moves" in other.json()["error"]) == (409, True)


def test_a_viewer_and_a_forged_request_move_nothing(page: RunningPage, job: FoldingJob) -> None:
    browser = httpx.Client(base_url=page.url, params={"cluster": "c"})
    csrf = browser.post(f"{API}session", json={"token": OPERATOR}).json()["csrf"]
    evil = {"X-CSRF-Token": csrf, "Origin": "https://evil.example"}
    for name in ("preview", "intents"):
        answers = [post(page, move(), name, VIEWER)]
        answers += [browser.post(f"{API}{name}", json=move(), headers=one) for one in ({}, evil)]
        assert [one.status_code for one in answers] == [403] * 3

    assert written(job) == []


def test_without_the_key_the_page_says_which_setting_it_needs(job: FoldingJob) -> None:
    with page_of(job.control.folder, SETTINGS, tokens=True) as page:
        answers = [post(page, move(), name) for name in ("preview", "intents")]

    said = [(one.status_code, "signing.intents_key_file" in one.text) for one in answers]
    assert said == [(409, True)] * 2
