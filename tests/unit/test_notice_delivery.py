"""Deliveries to a real webhook that fails, is slow, asks for a pause or hangs up; and their
signature.
"""

import hashlib
import hmac
import socket
import threading
from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sinks.notices.delivery import Attempt, Delivery, Reply, fate_of, retry_after_s
from sinks.notices.settings import NoticeSettings, webhook
from strategies.errors import SettingsError
from tests.notice_builders import a_notice
from tests.unit.test_pulsar_tls import certificate
from tools.servers.webhook import Answered, Hook, listening

KEY = "the-key-nobody-may-see-0123456789"
NOW_S = 1_795_000_000
IN_A_MINUTE = {"Retry-After": "Wed, 18 Nov 2026 11:07:40 GMT"}


@dataclass
class Sender:
    """A delivery whose pauses take no time; they are kept. `stop_after`: number of pauses after
    which the process is to stop.
    """

    stop_after: int = 1_000
    pauses: list[float] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)

    def send(self, settings: NoticeSettings) -> str:
        def wait(seconds: float) -> bool:
            self.pauses.append(seconds)
            return len(self.pauses) >= self.stop_after

        told, hook = self.attempts.append, webhook(settings)
        now, chance = lambda: NOW_S, lambda: 0.0
        delivery = Delivery(hook, settings, wait, told, clock_s=now, chance=chance)
        return delivery.deliver(a_notice())

    @property
    def codes(self) -> list[str]:
        return [one.reply.code for one in self.attempts]


@pytest.fixture
def sender() -> Sender:
    return Sender()


def to(hook: Hook, **changes: object) -> NoticeSettings:
    return NoticeSettings(url=hook.url, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "codes", "pauses"),
    [
        (
            [Answered(500), Answered(502), Answered(408), Answered(425)],
            ["500", "502", "408", "425", "200"],
            [1.0, 2.0, 4.0, 8.0],
        ),
        (
            [Answered(429, {"Retry-After": "7"}), Answered(503, IN_A_MINUTE)],
            ["429", "503", "200"],
            [7.0, 60.0],
        ),
        ([Answered(hang_up=True)], ["broken", "200"], [1.0]),
    ],
    ids=["errors-that-may-pass", "a-server-that-asks-for-a-pause", "a-server-that-hangs-up"],
)
def test_the_notice_is_sent_again_after_a_pause(
    sender: Sender, answers: list[Answered], codes: list[str], pauses: list[float]
) -> None:
    with listening(*answers) as hook:
        assert sender.send(to(hook)) == "delivered"
    assert (sender.codes, sender.pauses) == (codes, pauses)
    assert len({(one.body, one.headers["webhook-id"]) for one in hook.received}) == 1


def test_a_slow_server_gets_the_notice_again(sender: Sender) -> None:
    answered = threading.Event()
    with listening(Answered(wait=answered.wait)) as hook:
        assert sender.send(to(hook, timeout_ms=200)) == "delivered"
        answered.set()
    assert sender.codes == ["timeout", "200"]


def test_a_server_that_is_not_there(sender: Sender) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    settings = NoticeSettings(url=f"http://127.0.0.1:{port}/secret", attempts=3)
    assert sender.send(settings) == "given-up"
    assert sender.codes == ["unreachable"] * 3
    assert all("secret" not in one.reply.text for one in sender.attempts)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 410, 413])
def test_errors_that_do_not_pass_are_given_up(sender: Sender, status: int) -> None:
    with listening(Answered(status, {"Location": "http://127.0.0.1:1/"})) as hook:
        assert sender.send(to(hook)) == "given-up"
    assert sender.codes == [str(status)]


def test_a_stop_ends_the_pauses(sender: Sender) -> None:
    sender.stop_after = 2
    with listening(*[Answered(500)] * 9) as hook:
        assert sender.send(to(hook)) == "stopped"
    assert len(hook.received) == 2


def test_pauses_differ_by_chance_and_have_a_limit() -> None:
    reply, settings = Reply("500", ""), NoticeSettings(attempts=10_000)
    assert fate_of(reply, 3, settings, chance=1.0) == ("again", 2.0)
    assert fate_of(reply, 9_999, settings, chance=0.0) == ("again", 300.0)
    assert fate_of(reply, 10_000, settings, chance=0.0) == ("given-up", 0.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *((no_pause, 0) for no_pause in ("", "soon", "-5", "1e9", "٣", "Wed, 99 Foo", "\x00")),
        ("9" * 400, 3_600),
        ("Thu, 31 Dec 9999 23:59:59 GMT", 3_600),
    ],
)
def test_a_pause_that_a_server_asks_for_has_limits(header: str, seconds: float) -> None:
    assert retry_after_s(header, NOW_S) == seconds


def test_anyone_with_the_key_can_check_the_signature(sender: Sender, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    with listening() as hook:
        sender.send(to(hook, key_file=str(tmp_path / "key")))
        sender.send(to(hook))
    got, unsigned = hook.received
    assert got.headers["webhook-timestamp"] == str(NOW_S)
    signed = f"{got.headers['webhook-id']}.{NOW_S}.".encode() + got.body
    mac = b64encode(hmac.digest(KEY.encode(), signed, hashlib.sha256)).decode()
    assert got.headers["webhook-signature"] == f"v1,{mac}"
    assert "webhook-signature" not in unsigned.headers


def test_a_token_or_user_and_password_of_the_address_are_sent(
    sender: Sender, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a-token\n")
    with listening() as hook:
        (tmp_path / "url").write_text(f"http://me:p%40ss@127.0.0.1:{hook.port}/hook?a=b\n")
        sender.send(to(hook, token_file=str(tmp_path / "token")))
        sender.send(NoticeSettings(url_file=str(tmp_path / "url")))
    token, login = hook.received
    assert token.headers["authorization"] == "Bearer a-token"
    assert (login.path, login.headers["host"]) == ("/hook?a=b", f"127.0.0.1:{hook.port}")
    assert b64decode(login.headers["authorization"].removeprefix("Basic ")) == b"me:p@ss"


def test_only_a_trusted_certificate_gets_notices(sender: Sender, tmp_path: Path) -> None:
    ours, theirs = certificate(tmp_path, "ours"), certificate(tmp_path, "theirs")
    fates, received = [], []
    for shown in (ours, theirs):
        with listening(certificate=shown) as hook:
            url = hook.url.replace("http:", "https:")
            fates.append(sender.send(NoticeSettings(url, tls_ca_file=str(ours), attempts=1)))
        received.append(len(hook.received))
    assert (fates, received) == (["delivered", "given-up"], [1, 0])
    assert sender.codes == ["200", "unreachable"]
    assert "CERTIFICATE_VERIFY_FAILED" in sender.attempts[1].reply.text


FILE = {"url": "https://h/"}
#: Settings, the content of `{}`, and the beginning of the complaint.
WRONG: list[tuple[dict[str, str], str, str]] = [
    ({}, "", "notices.url_file: no webhook"),
    ({"url": "ftp://h/x"}, "", "notices.url: the address is not complete"),
    ({"url": "http://h:0/SECRET"}, "", "notices.url: the address is not complete"),
    ({"url": "http:// h/SECRET"}, "", "notices.url: the address has other characters"),
    ({"url": "http://me:SECRET@h/"}, "", "notices.url: this address contains a secret"),
    ({"url": "https://SECRET", "form": "slack"}, "", "notices.url: this address contains a secret"),
    ({"url": f"https://h/{'SECRET' * 400}"}, "", "notices.url: the address has more than 2,000"),
    ({"url": "http://h/", "url_file": "/x"}, "", "notices.url: set only one"),
    ({"url": "http://h/", "kinds": "blind,dog"}, "", "notices.kinds: dog is no kind of notice"),
    ({"url": "http://h/", "link": "javascript:x"}, "", "notices.link: write http://"),
    ({"url": "http://h/", "link": "http://me:SECRET@h/"}, "", "notices.link: write http://"),
    ({"url": "http://h/", "state": "here"}, "", "notices.state: 'here' is no absolute path"),
    ({"url_file": "{}"}, "SECRET", "notices.url_file: the address in {} is not complete"),
    ({"url_file": "{}"}, "", "notices.url_file: {} is empty"),
    ({**FILE, "key_file": "/none"}, "", "notices.key_file: /none cannot be read"),
    ({**FILE, "key_file": "{}"}, "SECRET", "notices.key_file: {} has fewer than 16 bytes"),
    ({**FILE, "token_file": "{}"}, "a SECRET", "notices.token_file: {} contains more than one"),
    ({**FILE, "tls_ca_file": "{}"}, "SECRET", "notices.tls_ca_file: {} contains no certificates"),
]


@pytest.mark.parametrize(("given", "content", "complaint"), WRONG)
def test_wrong_settings_and_files_are_one_sentence_without_secrets(
    tmp_path: Path, given: dict[str, str], content: str, complaint: str
) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    settings = NoticeSettings(**{name: value.format(file) for name, value in given.items()})  # type: ignore[arg-type]
    with pytest.raises(SettingsError) as refused:
        Delivery(webhook(settings), settings, lambda _: True, lambda _: None)
    (found,) = refused.value.complaints
    assert found.startswith(complaint.format(file))
    assert "SECRET" not in found


def test_no_secret_is_printed_with_the_webhook(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://me:SECRET@h/SECRET")
    (tmp_path / "key").write_text("SECRET-0123456789")
    settings = NoticeSettings(url_file=str(tmp_path / "url"), key_file=str(tmp_path / "key"))
    assert "SECRET" not in repr(webhook(settings))
