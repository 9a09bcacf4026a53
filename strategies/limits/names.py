"""Matches namespaces and brokers against an operator's lists: shell patterns, separated by
commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache

from strategies.filters.contract import namespace_of

_BRACKETED = re.compile(r"\s*\[([^\[\]]*)\]\s*")


def patterns(text: str) -> tuple[str, ...]:
    """The patterns of a list, which may stand in brackets, as Pulsar prints it."""
    bracketed = _BRACKETED.fullmatch(text)
    text = bracketed[1] if bracketed else text
    return tuple(entry for entry in (part.strip() for part in text.split(",")) if entry)


def matcher(text: str) -> Callable[[str], bool]:
    """Returns a function: whether a name matches a list. An empty list matches no name."""
    named = patterns(text)
    return lambda name: any(fnmatchcase(name, pattern) for pattern in named)


def of_namespaces(text: str) -> Callable[[str], bool]:
    """Returns a function: whether the namespace of a bundle matches a list."""
    if not patterns(text):
        return lambda _: False
    is_named = cache(matcher(text))
    return lambda bundle: is_named(namespace_of(bundle))
