"""The live page's server: documents, sign-in, decisions, and requests that mean no good."""

import http.client
import json
import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sinks.secret_file import read_secret
from sinks.topics.files.topic import FileTopicReader, FileTopicWriter
from sinks.wire.record_decoding import decode_approval
from sinks.wire.record_encoding import encode_round
from sinks.wire.signing_keys import SigningKey
from tests.live_server import API, OPERATOR, VIEWER, RunningPage, page_of
from tests.live_topics import MadeUpCluster, publish
from tools.waiting import eventually

pytestmark = pytest.mark.heavy
KEY = secrets.token_hex(32)
NAMES = ("clusters", "cluster", "plans", "brokers", "usage", "bundles", "rounds", "explain")
MALFORMED = (
    b"\x00\x01\x02\x03\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%00%ff%c0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET /assets/../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/v1/rounds?since=9e99 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPage]:
    """The page of two clusters, without tokens."""
    folder, now_ms = tmp_path_factory.mktemp("local"), time.time_ns() // 1_000_000
    publish(folder, MadeUpCluster(now_ms))
    publish(folder, MadeUpCluster(now_ms, cluster="<b>staging</b>", brokers=30, waits=False))
    with page_of(folder, clusters=2) as page:
        yield page


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningPage]:
    """The page of a cluster whose plan waits, for people with tokens."""
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    (tmp_path / "key").write_text(KEY)
    words = ["executor.approval=required", f"signing.approvals_key_file={tmp_path / 'key'}"]
    with page_of(tmp_path, words, tokens=True) as page:
        yield page


def open_plan(page: RunningPage) -> dict[str, Any]:
    """The one that waits, if the page has it."""
    plans = page.get("plans", VIEWER, cluster="production").json()["open"]
    return dict(plans[0]) if plans else {}


def waiting_plan(page: RunningPage) -> str:
    """The id of the plan that waits, as soon as its round is complete."""
    eventually(lambda: bool(open_plan(page).get("complete")), 30)
    return str(open_plan(page)["id"])


def signed_in(page: RunningPage, token: str) -> tuple[httpx.Client, str]:
    """A browser with a session, and the page's secret."""
    browser = httpx.Client(base_url=page.url)
    answer = browser.post(f"{API}session", json={"token": token})
    assert answer.status_code == 200
    return browser, answer.json()["csrf"]


def decide(
    browser: httpx.Client, body: dict[str, str], csrf: str = "", **headers: str
) -> tuple[int, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named |= {"X-CSRF-Token": csrf} if csrf else {}
    answer = browser.post(f"{API}plans?cluster=production", json=body, headers=named)
    return answer.status_code, answer.json()


def a_pause(**changes: str) -> dict[str, str]:
    """A decision as the page sends it."""
    return {"action": "pause", "reason": "x", "plan": "", **changes}


def test_each_document_is_there_for_each_cluster(local: RunningPage) -> None:
    for cluster in ("production", "<b>staging</b>"):
        for name in NAMES:
            answer = local.get(name, cluster=cluster)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert local.get("cluster", cluster="production").json()["cluster"] == "production"
    missing = local.get("cluster", cluster="nowhere")
    assert missing.status_code == 404
    assert "lists them" in missing.json()["error"]


def test_a_document_that_did_not_change_is_not_sent_again(local: RunningPage) -> None:
    first = local.get("usage", cluster="production")
    known = {"If-None-Match": first.headers["etag"]}
    again = httpx.get(f"{local.url}{API}usage?cluster=production", headers=known)

    assert first.headers["content-encoding"] == "gzip"
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_and_its_files_are_in_the_package(local: RunningPage) -> None:
    index = httpx.get(local.url)
    named = re.findall(r'(?:src|href)="(/[^"]+)"', index.text)

    assert named
    for path in named:
        assert httpx.get(local.url.rstrip("/") + path).status_code == 200
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", index.text)


def test_each_answer_protects_the_browser(local: RunningPage) -> None:
    for path in ("", "assets/main.js", f"{API}clusters", "nowhere", f"{API}cluster?cluster=x"):
        headers = httpx.get(local.url + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_the_stream_announces_a_new_round_in_few_bytes(tmp_path: Path) -> None:
    made = MadeUpCluster(time.time_ns() // 1_000_000, cluster="c")
    rounds = [done for done, _, _ in made.made()]
    with FileTopicWriter(tmp_path / "rounds") as topic:
        topic.append([encode_round(done) for done in rounds[:-1]])
        with page_of(tmp_path) as page:
            stream = http.client.HTTPConnection(*page.place, timeout=60)
            stream.request("GET", f"/{API}events")
            answer = stream.getresponse()
            first = message(answer)
            topic.append([encode_round(rounds[-1])])
            second = message(answer)
            stream.close()

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert second["clusters"]["c"][1] > first["clusters"]["c"][1]
    assert len(json.dumps(second)) < 500


def message(stream: http.client.HTTPResponse) -> dict[str, dict[str, list[int]]]:
    """The next message that names a cluster."""
    while True:
        line = stream.readline()
        if line.startswith(b"data: "):
            found: dict[str, dict[str, list[int]]] = json.loads(line[6:])
            if found["clusters"]:
                return found


def test_without_a_token_file_no_user_may_decide(local: RunningPage) -> None:
    status, found = decide(httpx.Client(base_url=local.url), a_pause())

    assert status == 403
    assert "serve.token_file" in found["error"]
    assert not (local.folder / "approvals").exists()
    assert local.get("session").json()["may_operate"] is False


def test_without_a_token_each_document_is_401(guarded: RunningPage) -> None:
    for name in (*NAMES, "session", "events"):
        assert guarded.get(name, cluster="production").status_code == 401
    assert guarded.get("clusters", "wrong").status_code == 401
    assert httpx.get(guarded.url).status_code == 200, "the form to sign in"
    assert guarded.get("plans", VIEWER, cluster="production").status_code == 200


def test_ten_wrong_tokens_make_the_address_wait_but_lock_no_right_one_out(
    guarded: RunningPage,
) -> None:
    """Who guesses, and all others behind the same proxy, have one address."""
    seen = [guarded.get("clusters", f"wrong-{number}").status_code for number in range(12)]
    answer = httpx.post(f"{guarded.url}{API}session", json={"token": "wrong"})

    assert seen == [401] * 10 + [429] * 2
    assert answer.headers["retry-after"].isdecimal()
    assert guarded.get("clusters", VIEWER).status_code == 200
    browser, _ = signed_in(guarded, VIEWER)
    assert browser.get(f"{API}clusters").status_code == 200
    assert guarded.get("clusters", "wrong-13").status_code == 429, "guessing stays slow"


def test_the_cookie_of_a_session_stays_with_this_site(guarded: RunningPage) -> None:
    answer = httpx.post(f"{guarded.url}{API}session", json={"token": VIEWER})

    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/"))
    assert VIEWER not in answer.text
    browser = httpx.Client(base_url=guarded.url, cookies=answer.cookies)
    secret = {"X-CSRF-Token": answer.json()["csrf"]}
    assert browser.delete(f"{API}session").status_code == 403
    assert browser.delete(f"{API}session", headers=secret).status_code == 204
    again = httpx.Client(base_url=guarded.url, cookies=answer.cookies)
    assert again.get(f"{API}clusters").status_code == 401


def test_an_operator_approves_exactly_the_plan_that_was_shown(guarded: RunningPage) -> None:
    plan = waiting_plan(guarded)
    browser, csrf = signed_in(guarded, OPERATOR)

    body = {"action": "approve", "reason": "looks right", "plan": plan}
    status, found = decide(browser, body, csrf)

    assert (status, found["by"], found["plan"]) == (202, "Grace", plan)
    (record,), _ = FileTopicReader(guarded.folder / "approvals").read()
    approval = decode_approval(record.value)
    assert (approval.by, approval.reason, approval.plan) == ("Grace", "looks right", plan)
    assert len(approval.commands) == 4
    key = SigningKey(read_secret(str(guarded.folder / "key"), "signing.approvals_key_file"))
    assert key.check(record.value) == "signed"
    eventually(lambda: open_plan(guarded)["decision"] is not None, 30)
    shown = open_plan(guarded)["decision"]
    assert (shown["action"], shown["by"], shown["status"]) == ("approve", "Grace", None)


@pytest.mark.parametrize(
    ("changes", "status", "sentence"),
    [
        ({"action": "approve", "reason": "", "plan": "PLAN"}, 409, "names a person and a reason"),
        ({"action": "approve", "plan": "1.1-nothing"}, 409, "no such plan"),
        ({"action": "dance"}, 400, "approve, deny, pause, resume"),
        ({"reason": "a\nb"}, 409, "control characters"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_with_a_sentence(
    guarded: RunningPage, changes: dict[str, str], status: int, sentence: str
) -> None:
    plan = waiting_plan(guarded)
    given = {name: value.replace("PLAN", plan) for name, value in changes.items()}
    browser = httpx.Client(base_url=guarded.url)

    seen, found = decide(browser, a_pause(**given), authorization=f"Bearer {OPERATOR}")

    assert seen == status
    assert sentence in found["error"]
    assert not (guarded.folder / "approvals").exists()


def test_a_viewer_and_a_forged_request_decide_nothing(guarded: RunningPage) -> None:
    body = a_pause(action="approve", plan=waiting_plan(guarded))
    viewer, viewers = signed_in(guarded, VIEWER)
    operator, csrf = signed_in(guarded, OPERATOR)

    seen = {
        "viewer": decide(viewer, body, viewers),
        "without the page's secret": decide(operator, body),
        "another session's secret": decide(operator, body, viewers),
        "another site": decide(operator, body, csrf, origin="https://evil.example"),
        "a sandboxed page": decide(operator, body, csrf, origin="null"),
        "as fetch metadata shows": decide(operator, body, csrf, sec_fetch_site="cross-site"),
    }
    form = operator.post(
        f"{API}plans?cluster=production", data=body, headers={"X-CSRF-Token": csrf}
    )

    assert {name: status for name, (status, _) in seen.items()} == dict.fromkeys(seen, 403)
    assert form.status_code == 415
    assert not (guarded.folder / "approvals").exists()


def test_a_foreign_host_name_that_leads_here_is_refused(local: RunningPage) -> None:
    foreign = ["evil.example", "evil.example:8085", "localhost.evil.example", "127.0.0.1@evil"]
    for host in (*foreign, "", "localhost"):
        answer = httpx.get(f"{local.url}{API}clusters", headers={"Host": host})
        assert answer.status_code in ((200,) if host == "localhost" else (400, 421))


def test_bodies_are_small(guarded: RunningPage) -> None:
    large = b'{"token": "' + b"a" * 20_000 + b'"}'
    kind = {"Content-Type": "application/json"}

    def pieces() -> Iterator[bytes]:
        yield from (large[at : at + 1_000] for at in range(0, len(large), 1_000))

    for content in (large, pieces()):
        answer = httpx.post(f"{guarded.url}{API}session", content=content, headers=kind)
        assert answer.status_code == 413


def test_no_secret_is_in_documents_or_log(guarded: RunningPage) -> None:
    waiting_plan(guarded)
    browser, csrf = signed_in(guarded, OPERATOR)
    texts = [browser.get(f"{API}{name}?cluster=production").text for name in NAMES]
    texts += [browser.get(path).text for path in ("", "assets/main.js")]
    decide(browser, a_pause(), csrf)
    session = browser.cookies["rebalancer_session"]

    found = [*texts, *guarded.lines]

    for secret in (KEY, OPERATOR, VIEWER, session, csrf):
        assert not any(secret in text for text in found)


def test_malformed_requests_leave_the_page_up(local: RunningPage) -> None:
    for number, request in enumerate(MALFORMED * 20):
        with socket.create_connection(local.place, timeout=10) as connection:
            connection.sendall(request)
            if number % 3:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

    assert local.get("clusters").status_code == 200
    assert local.lines == []


def test_a_topic_that_cannot_be_read_is_named_and_read_again(tmp_path: Path) -> None:
    publish(tmp_path, MadeUpCluster(time.time_ns() // 1_000_000))
    with page_of(tmp_path) as page:
        (tmp_path / "rounds").rename(tmp_path / "away")
        (tmp_path / "rounds").write_text("no folder")
        eventually(lambda: bool(rounds_topic(page)["error"]), 60)
        assert page.get("cluster", cluster="production").json()["kept"] == 60
        (tmp_path / "rounds").unlink()
        (tmp_path / "away").rename(tmp_path / "rounds")
        eventually(lambda: not rounds_topic(page)["error"], 60)

    said = [line.split(",")[0].split(" is ")[0] for line in page.lines]
    assert said == ["topics.rounds cannot be read", "topics.rounds"]


def rounds_topic(page: RunningPage) -> dict[str, object]:
    topics = page.get("clusters").json()["topics"]
    return next(one for one in topics if one["name"] == "rounds")
