"""Answers a search of the live page: why, and why not, from the same code as `rebalancer
explain`.
"""

from __future__ import annotations

from pulsar_rebalancer.decisions.explain.sentences import located_lines
from pulsar_rebalancer.decisions.explain.subject import LATEST, UnknownSubject, locate
from pulsar_rebalancer.decisions.live.plan_views import plans_now
from pulsar_rebalancer.decisions.live.snapshot import LiveCluster
from pulsar_rebalancer.decisions.live.views import Document
from pulsar_rebalancer.decisions.plans import noted

#: Longest text that is searched for; names have at most 512 characters.
LONGEST_SUBJECT = 600
#: Rounds that an answer about a broker or bundle lists.
LAST_ROUNDS = 20
#: Lines of an answer; a round of a large cluster has one for each broker.
MOST_LINES = 2_000


def answer(
    one: LiveCluster, subject: str, epoch: int | None = None, *, approval_required: bool = False
) -> Document:
    """Answers as `rebalancer explain` does, as lines, the newest round first; or says
    why it cannot.

    `approval_required`: whether plans wait for people. `found`: false if no record mentions the
    subject, or it is ambiguous.
    """
    word, log = subject.strip()[:LONGEST_SUBJECT] or LATEST, one.decisions.log
    if approval_required:
        log = noted(log, plans_now(one))
    try:
        located = locate(word, log, epoch)
    except UnknownSubject as error:
        return {"found": False, "subject": word, "kind": "", "lines": [str(error)]}
    lines = located_lines(located, LAST_ROUNDS, newest_first=True)
    more = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"({more:,} more lines not shown)"] if more > 0 else [])]
    return {
        "found": True,
        "subject": located.subject.name,
        "kind": located.subject.kind,
        "lines": shown,
    }
