"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `remedy`: the next step, empty if there is no problem."""

    check: str
    status: Status
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, "ok", text)
