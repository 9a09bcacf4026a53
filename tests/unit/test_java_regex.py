"""Regular expressions of isolation policies mean what they mean in Java."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.java.linear_match import Automaton, parsed, ways
from strategies.java.regex import PatternError, compile_java


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
    assert compile_java(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "[a",
        "a\\",
        r"\y",
        r"\p{Greek}",
        r"\pL",
        "*",
        r"[\y]",
        "[z-a]",
        "(?<a",
        "[&&]",
        r"\k",
    ],
)
def test_a_pattern_that_cannot_be_read_says_so(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_java(pattern)


@settings(deadline=None)
@given(st.text(alphabet="ab1.-[]^&\\QEpdw{}()?*+|<>k=: ", max_size=12))
def test_any_text_is_a_pattern_or_a_complaint(pattern: str) -> None:
    with suppress(PatternError):
        compile_java(pattern).matches("ab1")


#: Their ways through a name grow exponentially, or by a high power, with the length of the name or
#: of the pattern.
ENDLESS = [
    "(a+)+b",
    "(a*)*b",
    "(a|a)*b",
    "(a|aa)+b",
    "([a-z]+)*@",
    "(.*a){20}b",
    "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)b",
    ".*a.*a.*a.*a.*a.*b",
    "a?" * 30 + "a" * 30 + "b",
    "(a|a)" * 40 + "b",
    "(?i)((A|a)+)+b",
    "((a+)+)+$b",
    "((a{0,9}){0,9}){0,9}b",
]


@pytest.mark.heavy
@pytest.mark.parametrize("pattern", ENDLESS)
def test_a_pattern_that_would_take_forever_is_matched_in_linear_time(pattern: str) -> None:
    matches = compile_java(pattern).matches
    assert not matches("a" * 200)
    assert not matches("a" * 512)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(a+)+b", "aaab", True),
        ("([a-z&&[^aeiou]]+-?)*([^a[bc]]|x)+", "xyz-d", True),
        ("([a-z&&[^aeiou]]+-?)*([^a[bc]]|x)+", "xyz-b", False),
        ("([a-z&&[^aeiou]]+-?)*([^a[bc]]|x)+", "xyz-a", False),
        (".*-a.*-b.*-c.*", "x-a1-b2-c3", True),
        (".*-a.*-b.*-c.*", "x-a1-c2-b3", False),
        ("([a-z]+-)*[0-9]+", "broker-eu-17", True),
        ("([a-z]+-)*[0-9]+", "broker-eu-", False),
        (r"(\w+\.)*example\.com", "b1.eu.example.com", True),
        (r"(?i)(B|b|c)*(\d|x)*[^q-z]+", "bBCx1A", True),
        (r"(?i)(B|b|c)*(\d|x)*[^q-z]+", "bBCx1Q", False),
        (r"(\D\S\W?)*(a|b)*^$", "", True),
        (r"(ab|\b)*(c|\B)*", "abcc", True),
        (r"(a{2,3}|b)*(a|c){2}", "aabaaaca", True),
        (r"(a{2,3}|b)*(a|c){2}", "bac", True),
        (r"(a{2,3}|b)*(a|c){2}", "bab", False),
        ("(a+)+(?<!x)b", "aab", True),
        ("(?!public/|pulsar/)([a-z]+/)*.*-.*-.*", "mine/a-b-c", True),
        ("(?!public/|pulsar/)([a-z]+/)*.*-.*-.*", "public/a-b-c", False),
        (r"(?i:(B|b)*)(?-i:(c|d)*)(?=X$)[X-Z]*", "BbcdX", True),
        (r"(?i)(B|b)*(?-i:(c|d)*x?)", "bBcX", False),
    ],
)
def test_patterns_with_many_ways_mean_what_they_mean_in_java(
    pattern: str, text: str, matches: bool
) -> None:
    assert compile_java(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=(a+)+b).*",
        r"(a+)+(b)\2",
        "(a+)+(?!.*.*x)b",
        r"(b)(a+)+(?=\1)b",
        "(a+)+b++",
        "((a{99}){99}){99}b|(a|a)*c",
        "x" * 5_000,
    ],
)
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


#: What Python's parser gives, of 3.11 to 3.14: operation by operation, with what the matching reads
#: of it.
TREES = {
    "ab": "[(LITERAL, 97), (LITERAL, 98)]",
    ".": "[(ANY, None)]",
    r"[^a\d]": "[(IN, [(NEGATE, None), (LITERAL, 97), (CATEGORY, CATEGORY_DIGIT)])]",
    "[a-c]": "[(IN, [(RANGE, (97, 99))])]",
    r"^a\b$\Z": "[(AT, AT_BEGINNING), (LITERAL, 97), (AT, AT_BOUNDARY), "
    "(AT, AT_END), (AT, AT_END_STRING)]",
    "(?:ab|cd)": "[(BRANCH, (None, [[(LITERAL, 97), (LITERAL, 98)], "
    "[(LITERAL, 99), (LITERAL, 100)]]))]",
    "(?i:a)": f"[(SUBPATTERN, (None, {re.IGNORECASE.value}, 0, [(LITERAL, 97)]))]",
    "a{2,3}": "[(MAX_REPEAT, (2, 3, [(LITERAL, 97)]))]",
    "a*?": "[(MIN_REPEAT, (0, MAXREPEAT, [(LITERAL, 97)]))]",
    "a*+": "[(POSSESSIVE_REPEAT, (0, MAXREPEAT, [(LITERAL, 97)]))]",
    "(?>a)": "[(ATOMIC_GROUP, [(LITERAL, 97)])]",
    "(?=a)(?<!b)": "[(ASSERT, (1, [(LITERAL, 97)])), (ASSERT_NOT, (-1, [(LITERAL, 98)]))]",
    r"(a)\1(?(1)b|c)": "[(SUBPATTERN, (1, 0, 0, [(LITERAL, 97)])), (GROUPREF, 1), "
    "(GROUPREF_EXISTS, (1, [(LITERAL, 98)], [(LITERAL, 99)]))]",
}


@pytest.mark.parametrize("pattern", TREES)
def test_a_new_python_parses_as_before(pattern: str) -> None:
    """The parser is a private part of Python: where a release changes it, `linear_match` has to
    follow.
    """
    assert repr(parsed(pattern)) == TREES[pattern]


def test_an_operation_that_is_not_known_is_never_tried_way_by_way() -> None:
    assert ways([("SOMETHING_NEW", None)]) > 2**29
