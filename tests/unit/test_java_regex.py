"""Regular expressions of isolation policies mean what they mean in Java."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.java.linear_time_regex import Automaton, parsed, ways
from strategies.java.regex import PatternError, compile_java

#: `matches`: patterns, some of them with many ways through a text, and whether they match it;
#: `endless`: their ways through a name grow exponentially, or by a high power, with its length or
#: their own; `refused`: could take too long and are not regular; `trees`: what Python reads,
#: of 3.11 to 3.14, operation by operation.
PATTERNS = json.loads((Path(__file__).parents[1] / "data/java-patterns.json").read_text("utf-8"))


@pytest.mark.parametrize(("pattern", "text", "matches"), PATTERNS["matches"])
def test_a_pattern_matches_as_in_java(pattern: str, text: str, matches: bool) -> None:
    assert compile_java(pattern).matches(text) is matches


@pytest.mark.parametrize("pattern", PATTERNS["unreadable"])
def test_a_pattern_that_cannot_be_read_says_so(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_java(pattern)


@settings(deadline=None)
@given(st.text(alphabet="ab1.-[]^&\\QEpdw{}()?*+|<>k=: ", max_size=12))
def test_any_text_is_a_pattern_or_a_complaint(pattern: str) -> None:
    with suppress(PatternError):
        compile_java(pattern).matches("ab1")


@pytest.mark.heavy
@pytest.mark.parametrize("pattern", PATTERNS["endless"])
def test_a_pattern_that_would_take_forever_is_matched_in_linear_time(pattern: str) -> None:
    matches = compile_java(pattern).matches
    assert not matches("a" * 200)
    assert not matches("a" * 512)


@pytest.mark.parametrize("pattern", PATTERNS["refused"])
def test_a_pattern_that_could_take_too_long_and_is_not_regular_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"could take too long|more than 4000"):
        compile_java(pattern)


@settings(deadline=None)
@given(
    st.from_regex(
        r"(\(?([ab.]|\[ab\]|\[\^a\]|\\w|\\b|\^|\$)[*+?]?\)?[*+?]?\|?){1,5}", fullmatch=True
    ),
    st.text(alphabet="ab1-", max_size=7),
)
def test_the_automaton_agrees_with_the_engine_of_python(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern, re.ASCII).fullmatch(text) is not None
        found = Automaton(parsed(pattern)).matches(text)
    except ValueError:  # no pattern, or a possessive one
        return
    except re.error:
        return
    assert found is expected


@pytest.mark.parametrize("place", ["^", "$", r"\A", r"\Z", r"\b", r"\B", "(?=.b|$)", "(?<!a)"])
@pytest.mark.parametrize("around", ["{}", "(?s).*{}.*", "(?sm).*{}.*"])
def test_places_between_characters_are_those_of_the_library(place: str, around: str) -> None:
    pattern = around.format(place)
    expected, found = re.compile(pattern, re.ASCII), Automaton(parsed(pattern))
    for text in ("", "a", "\n", "a\n", "a\nb", "ab", "a b", "_", "a-", "-"):
        assert found.matches(text) is (expected.fullmatch(text) is not None), text


@pytest.mark.parametrize(("pattern", "tree"), PATTERNS["trees"].items())
def test_a_new_python_parses_as_before(pattern: str, tree: str) -> None:
    """The parser is a private part of Python, which `linear_time_regex` has to follow."""
    assert repr(parsed(pattern)) == tree


def test_an_operation_that_is_not_known_is_never_tried_way_by_way() -> None:
    assert ways([("SOMETHING_NEW", None)]) > 2**29
