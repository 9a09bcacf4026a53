"""Which namespaces and brokers an operator names: shell patterns, separated by commas."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache

from strategies.filters.contract import namespace_of


def patterns(text: str) -> tuple[str, ...]:
    """The patterns of a list."""
    return tuple(entry for entry in (part.strip() for part in text.split(",")) if entry)


def matcher(text: str) -> Callable[[str], bool]:
    """Whether a name is meant by a list; nothing is by an empty one."""
    named = patterns(text)
    return lambda name: any(fnmatchcase(name, pattern) for pattern in named)


def of_namespaces(text: str) -> Callable[[str], bool]:
    """Whether a bundle's namespace is meant by a list."""
    if not patterns(text):
        return lambda _: False
    is_named = cache(matcher(text))
    return lambda bundle: is_named(namespace_of(bundle))
