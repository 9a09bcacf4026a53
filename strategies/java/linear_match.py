"""Matches a regular expression in time linear in the text: follows all paths through the pattern in
parallel (Thompson 1968).

`re` tries one path after the other, and a pattern such as `(a+)+b` or `.*a.*b.*c.*d` has too many
paths for that. `ways` computes an upper bound of their number from the pattern; `Automaton` matches
patterns where the bound is large. It supports regular constructs: characters, classes, groups,
alternatives, repetitions, anchors; neither look-around nor back references. Both use the tree of
Python's own parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from strategies.ordered_sum import ordered_sum

#: Maximum length of the name of a namespace or host.
_LONGEST_TEXT = 512
_MOST_STATES = 2_000
_UNBOUNDED = 2**30

_Test = Callable[[str, int], bool]
_CATEGORIES = {
    "CATEGORY_DIGIT": frozenset("0123456789"),
    "CATEGORY_SPACE": frozenset(" \t\n\r\f\v"),
    "CATEGORY_WORD": frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"),
}
_WORD = _CATEGORIES["CATEGORY_WORD"]


class NotRegularError(ValueError):
    """The automaton cannot match the pattern; the message is a clause with the reason."""


def parsed(pattern: str) -> Any:
    """The syntax tree of a pattern, from Python's parser. Raises re.error."""
    return _parser.parse(pattern, re.ASCII)


def ways(tree: Iterable[Any]) -> int:
    """Upper bound of the number of paths through a text of 512 characters; `_UNBOUNDED` for very
    many.
    """
    product = 1
    for operation, argument in tree:
        product = min(_UNBOUNDED, product * _ways_through(str(operation), argument))
    return product


def _ways_through(operation: str, argument: Any) -> int:
    match operation:
        case "BRANCH":
            return ordered_sum(ways(branch) for branch in argument[1])
        case "SUBPATTERN":
            return ways(argument[3])
        case "ATOMIC_GROUP":
            return ways(argument)
        case "ASSERT" | "ASSERT_NOT":
            return ways(argument[1])
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = argument
            times = min(int(most), _LONGEST_TEXT)
            once = ways(inner)
            if once == 1:
                return 1 if operation == "POSSESSIVE_REPEAT" else max(1, times - int(least) + 1)
            return (
                once**times
                if times <= 30 and int(least) == times
                else ordered_sum(once**n for n in range(times + 1))
                if times <= 30
                else _UNBOUNDED
            )
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT" | "GROUPREF" | "FAILURE":
            return 1
    return _UNBOUNDED  # also for constructs that later versions of Python may add


class Automaton:
    """A pattern as an automaton of states. Raises NotRegularError for a pattern that is not regular
    or needs too many states.
    """

    def __init__(self, tree: Any) -> None:
        #: Per state: a test of a character, a test of a position, or neither; and the states that
        #: follow.
        self._states: list[tuple[_Test | None, _Test | None, list[int]]] = [(None, None, [])]
        self._start = self._sequence(list(tree), 0, tree.state.flags)

    @property
    def size(self) -> int:
        """Number of states; each character of a text visits each state at most once."""
        return len(self._states)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        here = self._reached([self._start], text, 0)
        for at in range(len(text)):
            behind = [
                to
                for state in here
                if (test := self._states[state][0]) is not None and test(text, at)
                for to in self._states[state][2]
            ]
            here = self._reached(behind, text, at + 1)
        return 0 in here

    def _reached(self, states: list[int], text: str, at: int) -> set[int]:
        """These states, and all states reachable from them without consuming a character."""
        found, waiting = set[int](), states
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found.add(state)
            character, place, behind = self._states[state]
            if character is None and (place is None or place(text, at)):
                waiting.extend(behind)
        return found

    def _add(self, character: _Test | None, place: _Test | None, behind: list[int]) -> int:
        if len(self._states) >= _MOST_STATES:
            raise NotRegularError(
                f"it repeats itself too often, with more than {_MOST_STATES} states"
            )
        self._states.append((character, place, behind))
        return len(self._states) - 1

    def _sequence(self, items: list[Any], behind: int, flags: int) -> int:
        """The state before the items; states are built from the last item to the first."""
        for operation, argument in reversed(items):
            behind = self._item(str(operation), argument, behind, flags)
        return behind

    def _item(self, operation: str, argument: Any, behind: int, flags: int) -> int:
        match operation:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._add(_character(operation, argument, flags), None, [behind])
            case "AT":
                return self._add(None, _place(str(argument), flags), [behind])
            case "ASSERT" | "ASSERT_NOT" if _looks_at_one(argument):
                return self._add(
                    None, _ahead(_one(argument[1], flags), operation == "ASSERT"), [behind]
                )
            case "SUBPATTERN":
                return self._sequence(
                    list(argument[3]), behind, (flags | argument[1]) & ~argument[2]
                )
            case "BRANCH":
                return self._add(
                    None,
                    None,
                    [self._sequence(list(branch), behind, flags) for branch in argument[1]],
                )
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(
                    int(argument[0]), int(argument[1]), list(argument[2]), behind, flags
                )
        raise NotRegularError(
            "it has look-around, a back reference, or a possessive part, and repetitions that "
            "leave too many ways to match"
        )

    def _repeat(self, least: int, most: int, inner: list[Any], behind: int, flags: int) -> int:
        if most >= int(_parser.MAXREPEAT):
            loop: list[int] = [behind]
            state = self._add(None, None, loop)
            loop.append(self._sequence(inner, state, flags))
        else:
            state = behind
            for _ in range(most - least):
                state = self._add(None, None, [behind, self._sequence(inner, state, flags)])
        for _ in range(least):
            before, state = state, self._sequence(inner, state, flags)
            if state == before:  # nothing, however often
                break
        return state


def _character(operation: str, argument: Any, flags: int) -> _Test:
    """The test of one character."""
    # Evaluated once: each access to the flags creates an object, and a test runs for every state
    # and character.
    every, folds = bool(flags & re.DOTALL), bool(flags & re.IGNORECASE)
    if operation == "ANY":
        return lambda text, at: every or text[at] != "\n"
    items = (
        [("LITERAL", argument)]
        if operation != "IN"
        else [(str(kind), value) for kind, value in argument]
    )
    negated = operation == "NOT_LITERAL" or items[0][0] == "NEGATE"
    wanted = [(kind, value) for kind, value in items if kind != "NEGATE"]

    def test(text: str, at: int) -> bool:
        one = text[at]
        alike = {one, one.lower(), one.upper()} if folds and one.isascii() else {one}
        return (
            any(_is(character, kind, value) for character in alike for kind, value in wanted)
            is not negated
        )

    return test


def _looks_at_one(argument: Any) -> bool:
    """Whether it is a look-ahead at one character, which is how the translation writes nested
    brackets.
    """
    direction, tree = argument
    return bool(direction == 1 and tree.getwidth() == (1, 1))


def _ahead(test: _Test, wanted: bool) -> _Test:
    return lambda text, at: (at < len(text) and test(text, at)) is wanted


def _one(tree: Any, flags: int) -> _Test:
    """The test of the one character that the tree matches."""
    tests = [_of_one(str(operation), argument, flags) for operation, argument in tree]
    return lambda text, at: all(test(text, at) for test in tests)


def _of_one(operation: str, argument: Any, flags: int) -> _Test:
    match operation:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            return _character(operation, argument, flags)
        case "ASSERT" | "ASSERT_NOT" if _looks_at_one(argument):
            return _ahead(_one(argument[1], flags), operation == "ASSERT")
        case "SUBPATTERN":
            return _one(argument[3], (flags | argument[1]) & ~argument[2])
        case "BRANCH":
            branches = [_one(branch, flags) for branch in argument[1]]
            return lambda text, at: any(branch(text, at) for branch in branches)
    raise NotRegularError(
        "it has look-around of a kind that cannot be followed, and repetitions that leave too "
        "many ways to match"
    )


def _is(character: str, kind: str, value: Any) -> bool:
    if kind == "LITERAL":
        return bool(ord(character) == value)
    if kind == "RANGE":
        return bool(value[0] <= ord(character) <= value[1])
    name = str(value)
    return (character in _CATEGORIES[name.replace("_NOT_", "_")]) is not ("_NOT_" in name)


def _place(name: str, flags: int) -> _Test:
    """The test of a position between two characters."""
    lines = bool(flags & re.MULTILINE)
    match name:
        case "AT_BEGINNING":
            return lambda text, at: at == 0 or (lines and text[at - 1] == "\n")
        case "AT_BEGINNING_STRING":
            return lambda text, at: at == 0
        case "AT_END":
            return lambda text, at: (
                at == len(text) or text[at:] == "\n" or (lines and text[at] == "\n")
            )
        case "AT_END_STRING":
            return lambda text, at: at == len(text)
        case "AT_BOUNDARY":
            return _at_boundary
        case "AT_NON_BOUNDARY":
            return lambda text, at: bool(text) and not _at_boundary(text, at)
    raise NotRegularError(f"{name} is not understood")


def _at_boundary(text: str, at: int) -> bool:
    before, after = at > 0 and text[at - 1] in _WORD, at < len(text) and text[at] in _WORD
    return before is not after
