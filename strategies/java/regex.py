"""Compiles the regular expressions of isolation policies with Java's meaning.

Source of the rule: `java.util.regex.Pattern` of Java 17, without rare constructs. Constructs that
Python writes differently are translated: quoting with `\\Q…\\E`, named groups, POSIX classes such
as `\\p{Alpha}`, and unions and intersections inside brackets. Classes such as `\\d` and `\\w` mean
ASCII, as in Java.

Matching time is bounded: `re` matches patterns with few paths through a name, `linear_time_regex`
matches other patterns in linear time, and patterns that neither can match are refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from strategies.java.linear_time_regex import Automaton, NotRegularError, parsed, ways

_LONGEST = 4_000
#: Maximum number of paths through a name of 512 characters that `re` may try: that of two unbounded
#: repetitions, a few milliseconds.
_MOST_WAYS = 2**18 + 2**12
_PUNCTUATION = r"!-/:-@\[-`{-~"
#: POSIX classes as the inside of a Python character class.
_POSIX: Mapping[str, str] = MappingProxyType(
    {
        "Lower": "a-z",
        "Upper": "A-Z",
        "ASCII": r"\x00-\x7f",
        "Alpha": "a-zA-Z",
        "Digit": "0-9",
        "Alnum": "a-zA-Z0-9",
        "Punct": _PUNCTUATION,
        "Graph": f"a-zA-Z0-9{_PUNCTUATION}",
        "Print": f" a-zA-Z0-9{_PUNCTUATION}",
        "Blank": r" \t",
        "Cntrl": r"\x00-\x1f\x7f",
        "XDigit": "0-9a-fA-F",
        "Space": r" \t\n\x0b\f\r",
    }
)
_HORIZONTAL = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
#: Escapes with the same meaning in both languages, outside and inside brackets.
_SAME_OUTSIDE = frozenset("tnfrdDsSwWbBA0123456789xu")
_SAME_INSIDE = frozenset("tnfrdDsSwWxu")


class PatternError(ValueError):
    """A pattern that Java refuses or that this module does not support."""


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A compiled pattern; `matches` returns whether it matches a whole text, as Java's
    `Matcher.matches`.

    `states`: number of states of the automaton, 0 if `re` matches.
    """

    pattern: str
    matches: Callable[[str], bool] = field(compare=False)
    states: int = field(default=0, compare=False)


def compile_java(pattern: str) -> JavaPattern:
    """Compiles a pattern. Raises PatternError, whose message is a clause with the reason."""
    if len(pattern) > _LONGEST:
        raise PatternError(f"it has {len(pattern)} characters, more than {_LONGEST}")
    try:
        translated = _Translation(pattern).outside()
        tree = parsed(translated)
        if ways(tree) <= _MOST_WAYS:
            compiled = re.compile(translated, re.ASCII)
            return JavaPattern(pattern, lambda text: compiled.fullmatch(text) is not None)
        automaton = Automaton(tree)
        return JavaPattern(pattern, lru_cache(maxsize=1024)(automaton.matches), automaton.size)
    except NotRegularError as error:
        raise PatternError(f"it could take too long: {error}") from error
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"it is no regular expression ({error})") from error


@dataclass
class _Translation:
    """One pass over a pattern; `at`: position of the next character to read."""

    pattern: str
    at: int = 0

    def outside(self) -> str:
        """The rest of the pattern, brackets included."""
        parts = []
        while self.at < len(self.pattern):
            if self.sees("[", skip=True):
                parts.append(self.bracket())
            elif self.sees("\\Q"):
                parts.append(re.escape(self.quoted()))
            elif self.sees("\\", skip=True):
                parts.append(self.escape_outside())
            elif self.sees("(?<") and self.pattern[self.at + 3 : self.at + 4] not in ("=", "!", ""):
                self.at += 3
                parts.append("(?P<")
            else:
                parts.append(self.take())
        return "".join(parts)

    def bracket(self) -> str:
        """A character class after its `[`, as an expression that matches one character."""
        negated = self.sees("^", skip=True)
        operands: list[str] = []
        parts: list[str] = []
        items: list[str] = []
        while not (self.sees("]") and (items or parts or operands)):
            if self.sees("[", skip=True):
                parts.append(self.bracket())
            elif self.sees("&&", skip=True):
                operands.append(_union(items, parts))
                parts, items = [], []
            elif self.sees("\\Q"):
                items += [_literal(character) for character in self.quoted()]
            else:
                items.append(self.item())
        self.take()
        operands.append(_union(items, parts))
        return _intersection([operand for operand in operands if operand], negated)

    def item(self) -> str:
        """A character, an escape or a range, as it is written inside Python's brackets."""
        first = self.atom()
        follows = self.pattern[self.at + 1 : self.at + 2]
        if not self.sees("-") or follows in ("", "]", "["):
            return first
        self.at += 1
        return f"{first}-{self.atom()}"

    def atom(self) -> str:
        if not self.sees("\\", skip=True):
            return _literal(self.take())
        letter = self.take()
        if letter in _SAME_INSIDE:
            return f"\\{letter}"
        return self.escape_of_both(letter, inside=True)

    def escape_outside(self) -> str:
        letter = self.take()
        if letter == "z":
            return r"\Z"
        if letter == "Z":
            return r"(?=\n?\Z)"
        if letter == "k":
            return f"(?P={self.between('<', '>')})"
        if letter in _SAME_OUTSIDE:
            return f"\\{letter}"
        return self.escape_of_both(letter, inside=False)

    def escape_of_both(self, letter: str, *, inside: bool) -> str:
        if letter == "p":
            return self.posix("" if inside else "[", "" if inside else "]")
        if letter == "h":
            return _HORIZONTAL if inside else f"[{_HORIZONTAL}]"
        if letter == "P" and not inside:
            return self.posix("[^", "]")
        if letter == "e":
            return r"\x1b"
        if letter.isascii() and letter.isalnum():
            raise PatternError(
                f"\\{letter} is not understood{' inside brackets' if inside else ''}"
            )
        return _literal(letter)

    def posix(self, before: str, after: str) -> str:
        name = self.between("{", "}")
        if name not in _POSIX:
            raise PatternError(f"the class \\p{{{name}}} is not understood")
        return f"{before}{_POSIX[name]}{after}"

    def between(self, opening: str, closing: str) -> str:
        end = self.pattern.find(closing, self.at)
        if not self.sees(opening, skip=True) or end < 0:
            raise PatternError(f"a name in {opening}…{closing} is missing")
        name, self.at = self.pattern[self.at : end], end + 1
        return name

    def quoted(self) -> str:
        """The text between `\\Q` and `\\E` or the end of the pattern."""
        start = self.at + 2
        end = self.pattern.find("\\E", start)
        self.at = len(self.pattern) if end < 0 else end + 2
        return self.pattern[start:] if end < 0 else self.pattern[start:end]

    def sees(self, text: str, *, skip: bool = False) -> bool:
        found = self.pattern.startswith(text, self.at)
        if found and skip:
            self.at += len(text)
        return found

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise PatternError("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else f"\\x{ord(character):02x}"


def _union(items: list[str], parts: list[str]) -> str:
    alternatives = [*([f"[{''.join(items)}]"] if items else []), *parts]
    return (
        alternatives[0]
        if len(alternatives) == 1
        else f"(?:{'|'.join(alternatives)})"
        if alternatives
        else ""
    )


def _intersection(operands: list[str], negated: bool) -> str:
    if not operands:
        raise PatternError("brackets stand around nothing")
    both = "".join(f"(?={operand})" for operand in operands[:-1]) + operands[-1]
    return f"(?:(?!{both})[\\s\\S])" if negated else f"(?:{both})"
