"""Regular expressions of isolation policies mean what they mean in Java."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.filters.java_regex import PatternError, compile_java


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("broker-.*", "broker-1.example", True),
        ("broker", "broker-1", False),
        (r"p\d", "p1", True),
        (r"p\d", "p١", False),
        (r"\w+", "ä", False),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Qa.b", "a.b", True),
        (r"(?<host>b)\k<host>", "bb", True),
        (r"(?<=a)b|a(?<!x)", "a", True),
        (r"\p{Alpha}+\P{Alpha}", "ab1", True),
        (r"[\p{Upper}_]+", "A_B", True),
        ("[a-c[x-z]]+", "abzy", True),
        ("[a-c[x-z]]+", "m", False),
        ("[a-z&&[^aeiou]]+", "xyz", True),
        ("[a-z&&[^aeiou]]+", "xaz", False),
        ("[^a[b]]", "c", True),
        ("[^a[b]]", "b", False),
        ("[]a]+", "]a", True),
        (r"[\[\]\-.]+", "[-.]", True),
        (r"[\w.-]+", "a-b.c", True),
        (r"[\Q^]\E]+", "^]", True),
        ("(?i)BROKER", "broker", True),
        (r"a\z", "a", True),
        (r"a\Z", "a", True),
        (r"x\hy", "x y", True),
        (r"10\.\d+\.\d+\.\d+", "10.1.2.3", True),
        ("a++b", "aab", True),
        ("a{2}", "aa", True),
        (r"\e", "\x1b", True),
        ("[a-c-]", "-", True),
    ],
)
def test_a_pattern_matches_as_in_java(pattern: str, text: str, matches: bool) -> None:
    assert (compile_java(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize("pattern", ["(", "[", "[a", "a\\", r"\y", r"\p{Greek}", r"\pL", "*", r"[\y]", "[z-a]", "(?<a", "[&&]", r"\k"])
def test_a_pattern_that_cannot_be_read_says_so(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_java(pattern)


@settings(deadline=None)
@given(st.text(alphabet="ab1.-[]^&\\QEpdw{}()?*+|<>k=: ", max_size=12))
def test_any_text_is_a_pattern_or_a_complaint(pattern: str) -> None:
    with suppress(PatternError):
        compile_java(pattern).fullmatch("ab1")
