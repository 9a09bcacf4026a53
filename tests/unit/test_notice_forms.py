"""The two forms of a notice: the JSON document, and the message for Slack with its limits and
escapes; hostile names are text in both.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.notices.delivery import HEADER, MESSAGE, SECTION, NoticeCause, as_json, as_slack, clipped
from tests.notice_builders import HOSTILE, T0, a_notice

#: What Slack interprets in a text: everything between these signs.
CONTROL = re.compile(r"[<>]|&(?!amp;|lt;|gt;)")
FULL = a_notice(
    ended="blind",
    plan="1.2",
    command="c-1",
    picture="highest b1 82 %",
    link="https://rebalancer.example/?a=1&b=2",
)


def texts(message: Any) -> list[dict[str, Any]]:
    """All text objects of the blocks."""
    blocks = message["blocks"]
    return [one for it in blocks for one in ([it["text"]] if "text" in it else it["elements"])]


class TestJson:
    def test_the_document(self) -> None:
        assert json.loads(as_json(FULL)) == {
            "v": 1,
            "id": FULL.id,
            "kind": "cannot-help",
            "cluster": "prod",
            "title": "prod: cannot-help",
            "ts": T0,
            "since": T0,
            "cause": {"code": "cannot-help", "text": "a sentence", "advice": "What to do."},
            "ended": "blind",
            "plan": "1.2",
            "command": "c-1",
            "picture": "highest b1 82 %",
            "link": "https://rebalancer.example/?a=1&b=2",
        }

    def test_hostile_names_come_back_as_they_are(self) -> None:
        notice = a_notice(cluster=HOSTILE, cause=NoticeCause("x", HOSTILE, ""))
        body = as_json(notice)
        assert body.isascii()
        assert b"\n" not in body
        assert json.loads(body)["cause"]["text"] == HOSTILE


class TestSlack:
    def test_the_message(self) -> None:
        message = json.loads(as_slack(FULL))
        assert message["text"] == "prod: cannot-help — a sentence — What to do."
        assert [one["text"] for one in texts(message)] == [
            "prod: cannot-help",
            "a sentence",
            "What to do.",
            "highest b1 82 %",
            "<https://rebalancer.example/?a=1&amp;b=2|Show the cluster>",
            f"notice {FULL.id}, plan 1.2, command c-1",
        ]

    def test_what_is_missing_has_no_block(self) -> None:
        notice = a_notice(cause=NoticeCause("x", "y", ""))
        assert [one["type"] for one in json.loads(as_slack(notice))["blocks"]] == [
            "header",
            "section",
            "context",
        ]

    @pytest.mark.heavy
    @given(
        words=st.lists(st.text(max_size=40) | st.just(HOSTILE), min_size=6, max_size=6),
        times=st.sampled_from((1, 200)),
    )
    def test_words_from_records_are_text_and_keep_to_the_limits(
        self, words: list[str], times: int
    ) -> None:
        cluster, title, text, advice, picture, plan = (word * times for word in words)
        notice = a_notice(
            cluster=cluster,
            title=f"x{title}",
            cause=NoticeCause("code", text, advice),
            picture=picture,
            plan=plan,
        )
        message = json.loads(as_slack(notice))
        found = texts(message)
        assert {one["type"] for one in found} == {"plain_text"}
        for one in (message["text"], *(one["text"] for one in found)):
            assert one
            assert not CONTROL.search(one)
            assert all(character.isprintable() for character in one)
        assert len(found[0]["text"]) <= HEADER
        assert all(len(one["text"]) <= SECTION for one in found)
        assert len(message["text"]) <= MESSAGE
        assert len(message["blocks"]) <= 50

    @pytest.mark.parametrize(
        ("text", "most", "short"),
        [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("a&b", 7, "a&amp;b"),
            ("a&b", 6, "a…"),
            ("a&bc", 7, "a&amp;…"),
            ("\n\u202e", 20, "\\u000a\\u202e"),
        ],
    )
    def test_an_escape_is_never_cut(self, text: str, most: int, short: str) -> None:
        assert clipped(text, most) == short
