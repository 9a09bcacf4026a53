"""The result of a check, and the rules that lead to it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `remedy`: the next step, empty if there is no problem."""

    check: str
    status: Status
    text: str
    remedy: str = ""


class Rule(NamedTuple):
    """A line of a check's rule table. `applies`: whether the facts of the check show the problem
    that `status`, `text` and `remedy` describe.
    """

    applies: bool
    status: Status
    text: str
    remedy: str


Check = Callable[[], Iterable[Finding]]


def ok(check: str, text: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, "ok", text)


def evaluate(check: str, fine: str, *rules: Rule) -> Finding:
    """The finding of the first rule that applies; if none does, `ok` with the text `fine`."""
    for applies, status, text, remedy in rules:
        if applies:
            return Finding(check, status, text, remedy)
    return ok(check, fine)
