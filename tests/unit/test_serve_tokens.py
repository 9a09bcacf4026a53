"""Who may see the page: the token file, sessions, and wrong tokens."""

from pathlib import Path

import pytest

from pulsar_rebalancer.serve.sign_in import FailureLimit, Sessions, Viewer, digest_of, read_tokens
from pulsar_rebalancer.settings.page_address_and_log_settings import (
    ServeSettings,
    is_loopback,
    serve_address,
)
from strategies.errors import SettingsError

TOKEN, OTHER = "a-long-enough-token", "another-long-token"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def written(folder: Path, text: str) -> str:
    file = folder / "tokens"
    file.write_text(text)
    return str(file)


def test_a_token_belongs_to_the_person_in_its_line(tmp_path: Path) -> None:
    """A token may contain colons."""
    people = f"# people\n\noperator:Grace Hopper:{TOKEN}\nviewer:Ada:{OTHER}:more\n"
    book = read_tokens(written(tmp_path, people))

    assert book.get(digest_of(TOKEN)) == Viewer("Grace Hopper", "operator")
    assert book.get(digest_of(f"{OTHER}:more")) == Viewer("Ada", "viewer")
    for text in ("", TOKEN[:-1], f"{TOKEN} ", OTHER, "é", "\ud800"):
        assert digest_of(text) not in book


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (f"admin:Ada:{TOKEN}", "does not begin with viewer: or operator:"),
        ("viewer:Ada:short", "shorter than 16 characters; make one with `openssl rand -hex 24`"),
        (f"viewer:<b>:{TOKEN}", "the name has other characters"),
        (f"viewer:Ada:{TOKEN}\nviewer:Ada:{OTHER}", "line 2: the name is also in line 1"),
        (f"viewer:Ada:{TOKEN}\nviewer:Bob:{TOKEN}", "line 2: the token is also another person's"),
        ("# nothing", "has no line role:name:token"),
    ],
)
def test_a_wrong_line_is_named_without_its_token(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_tokens(written(tmp_path, line))

    text = str(caught.value)
    assert complaint in text
    assert text.startswith("serve.token_file: ")
    assert TOKEN not in text
    assert "short:" not in text


def test_no_token_appears_where_objects_are_printed(tmp_path: Path) -> None:
    book, sessions = read_tokens(written(tmp_path, f"viewer:Ada:{TOKEN}")), Sessions(Clock())
    name, viewer = sessions.begin(Viewer("Ada", "viewer"))

    printed = repr((book, sessions, viewer))

    assert not any(secret in printed for secret in (TOKEN, name, viewer.csrf))


def test_a_session_ends_after_half_a_day_or_when_its_owner_signs_out() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    first, viewer = sessions.begin(Viewer("Ada", "viewer"))
    second, other = sessions.begin(Viewer("Ada", "viewer"))

    assert sessions.of(first) == viewer
    assert viewer.csrf != other.csrf
    sessions.end(second)
    assert sessions.of(second) is None
    clock.now_s = 12 * 3600 + 1
    assert sessions.of(first) is None


def test_an_address_waits_after_ten_wrong_tokens() -> None:
    clock = Clock()
    failures = FailureLimit(clock)
    for _ in range(10):
        assert failures.wait_s("192.0.2.1") == 0
        failures.failed("192.0.2.1")

    assert failures.wait_s("192.0.2.1") > 50
    assert failures.wait_s("192.0.2.2") == 0
    clock.now_s = 61
    assert failures.wait_s("192.0.2.1") == 0


def test_the_addresses_that_are_remembered_have_a_limit() -> None:
    failures = FailureLimit(Clock())
    for number in range(20_000):
        failures.failed(f"address-{number}")

    assert len(failures._failed) <= 10_000


def test_other_machines_need_a_token_file() -> None:
    with pytest.raises(SettingsError, match=r"0\.0\.0\.0:8085 is reachable .* serve\.token_file"):
        serve_address(ServeSettings(listen="0.0.0.0:8085"))

    assert serve_address(ServeSettings(listen="0.0.0.0:8085", token_file="/x")).port == 8085
    assert all(map(is_loopback, ("127.0.0.1", "::1", "LocalHost", "127.4.5.6")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "example.org", "10.0.0.1")))
