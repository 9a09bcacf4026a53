"""Matches a regular expression in time linear in the text: follows all paths through the pattern in
parallel (Thompson 1968).

`re` tries one path after the other, and a pattern such as `(a+)+b` or `.*a.*b.*c.*d` has too many
paths for that. `ways` computes an upper bound of their number from the pattern; `Automaton` matches
patterns where the bound is large. It supports characters, classes, groups, alternatives,
repetitions, anchors and short look-around, but no back references. Both use the tree of Python's
own parser, and `re` compares single characters and positions.
"""

import re
from collections.abc import Callable, Iterable
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any

from strategies.ordered_sum import ordered_sum

#: Maximum length of the name of a namespace or host.
_LONGEST_TEXT = 512
_MOST_STATES = 2_000
_UNBOUNDED = 2**30

_Test = Callable[[str, int], bool]


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
        self._parsed = tree.state
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
            behind = self._item(operation, argument, behind, flags)
        return behind

    def _item(self, operation: Any, argument: Any, behind: int, flags: int) -> int:
        item = operation, argument
        match str(operation):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._add(_test(item, flags, self._parsed), None, [behind])
            case "AT" | "ASSERT" | "ASSERT_NOT" if ways(
                [item]
            ) <= 2 * _LONGEST_TEXT and "GROUPREF" not in repr(
                item
            ):  # `re` may try it at every position
                return self._add(None, _test(item, flags, self._parsed), [behind])
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


def _test(item: tuple[Any, Any], flags: int, state: Any) -> _Test:
    """Whether `re` matches the item at a position."""
    own, less = flags & ~state.flags, state.flags & ~flags
    alone = (_parser.SUBPATTERN, (None, own, less, _parser.SubPattern(state, [item])))
    compiled = _compiler.compile(_parser.SubPattern(state, [alone]))
    return lambda text, at: compiled.match(text, at) is not None
