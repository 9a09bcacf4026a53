"""The result of a check, the rules that lead to it, and time limits: a check whose server does not
answer ends with a finding, and the command continues with the next check.
"""

import queue
import threading
import time
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


def ok(check: str, text: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, "ok", text)


def evaluate(check: str, fine: str, *rules: Rule) -> Finding:
    """The finding of the first rule that applies; if none does, `ok` with the text `fine`."""
    for applies, status, text, remedy in rules:
        if applies:
            return Finding(check, status, text, remedy)
    return ok(check, fine)


Check = Callable[[], Iterable[Finding]]


class TimeLimit:
    """Runs checks in sequence, each in a thread of its own. A thread that exceeds the limit is
    abandoned and may keep a client open.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        total_s: float = 240.0,
        check_s: float = 90.0,
        say_every_s: float = 10.0,
    ) -> None:
        """`total_s`: of all checks together; `check_s`: of one check, for example of all topics or
        of one cluster; `say_every_s`: after each such time without a finding, a line names the
        check that is still running.
        """
        self._say, self._check_s, self._say_every_s = say, check_s, say_every_s
        self._end = time.monotonic() + total_s
        self._total_s = total_s
        #: Whether a thread was abandoned.
        self.exceeded = False

    def run(self, name: str, check: Check, status: Status = "fail") -> list[Finding]:
        """The findings of a check. If it exceeds the limit: those made in time, and one with
        `status` under the check's name.

        Raises what the check raises.
        """
        began = time.monotonic()
        until = min(began + self._check_s, self._end)
        if until <= began:
            return [
                Finding(
                    name,
                    status,
                    f"not checked: doctor's limit of {self._total_s:g} s is reached",
                    "see the findings above",
                )
            ]
        made: queue.SimpleQueue[Finding | BaseException | None] = queue.SimpleQueue()
        threading.Thread(
            target=_work, args=(check, made), name=f"doctor-{name}", daemon=True
        ).start()
        found: list[Finding] = []
        while (left_s := until - time.monotonic()) > 0:
            try:
                one = made.get(timeout=min(left_s, self._say_every_s))
            except queue.Empty:
                self._say(
                    f"doctor: {name}: not finished after {time.monotonic() - began:.0f} s; "
                    f"the limit is {until - began:.0f} s"
                )
                continue
            if one is None:
                return found
            if isinstance(one, BaseException):
                raise one
            found.append(one)
        self.exceeded = True
        return [
            *found,
            Finding(
                name,
                status,
                f"not finished within {until - began:.0f} s",
                "check the server or disk that this check needs, then run doctor again",
            ),
        ]


def _work(check: Check, made: queue.SimpleQueue[Finding | BaseException | None]) -> None:
    try:
        for one in check():
            made.put(one)
        made.put(None)
    except BaseException as error:  # raised again in the waiting thread
        made.put(error)
