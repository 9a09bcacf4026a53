"""Limits and escapes of notices, and hostile names, which are text. Their forms are in
tests/golden/notices.txt.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.notices.notice import HEADER, MESSAGE, SECTION, NoticeCause, as_json, as_slack, clipped
from tests.notice_builders import HOSTILE, a_notice

#: What Slack interprets in a text: everything between these signs.
CONTROL = re.compile(r"[<>]|&(?!amp;|lt;|gt;)")


def texts(message: Any) -> list[dict[str, Any]]:
    """All text objects of the blocks."""
    blocks = message["blocks"]
    return [one for it in blocks for one in ([it["text"]] if "text" in it else it["elements"])]


class TestJson:
    def test_hostile_names_come_back_as_they_are(self) -> None:
        notice = a_notice(cluster=HOSTILE, cause=NoticeCause("x", HOSTILE, ""))
        body = as_json(notice)
        assert body.isascii()
        assert b"\n" not in body
        assert json.loads(body)["cause"]["text"] == HOSTILE


class TestSlack:
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
