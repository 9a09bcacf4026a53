"""Decides when the rows of clusters that vanished leave the state. Imports no Spark.

A cluster's own time decides what is forgotten (`strategies.fold.time_jumps_and_forgetting`), at the
first record after the gap. Its rows leave before that, in a micro-batch with records of other
clusters, and no byte differs as long as no record within the gap comes later. Three things together
say so:

- *A line*: a time that is the setting's days and a margin ago, by the shard's newest record and by
  the clock of this machine, whichever is earlier. Clusters without a newer record may go. So
  neither one cluster's wrong clock nor this machine's alone draws it too late.
- *Running time*: the line was drawn, then the job has processed micro-batches for this long. A job
  that catches up after a stop reads what waits for a cluster in that time. Stops do not count.
- The cluster has had no record since the line was drawn that moved its time beyond the line.
"""

from dataclasses import dataclass
from typing import NamedTuple

from strategies.fold.time_jumps_and_forgetting import DAY_MS

#: Two micro-batches further apart than this count as so far apart: in between, the job may have
#: been stopped.
_LONGEST_PAUSE_MS = 300_000


@dataclass(frozen=True, slots=True)
class ForgetPolicy:
    """`after_ms`: of the engine's setting, 0 = rows never leave; `margin_ms`: how much later than
    that records may come; `running_ms`: running time between drawing a line and dropping rows.
    """

    after_ms: int = 0
    margin_ms: int = DAY_MS
    running_ms: int = DAY_MS


class Watch(NamedTuple):
    """A shard's watch over clusters that vanish."""

    #: The line: clusters whose newest record is not later have vanished (ms since the epoch); -1
    #: without a line.
    line: int = -1
    #: Running time since the line was drawn (ms).
    ran: int = 0
    #: When the last micro-batch ran, by this machine's clock (ms since the epoch); -1 before the
    #: first.
    at: int = -1


def watched(
    watch: Watch, newest_ms: int, now_ms: int, forget_policy: ForgetPolicy
) -> tuple[Watch, int | None]:
    """Returns the watch after a micro-batch, and the line if clusters whose newest record is not
    later are to be dropped now.

    `newest_ms`: the latest time of the clusters with records in it; `now_ms`: this machine's. Both
    in ms since the epoch.
    """
    if not forget_policy.after_ms:
        return Watch(), None
    passed = 0 if watch.at < 0 else min(max(now_ms - watch.at, 0), _LONGEST_PAUSE_MS)
    ran = watch.ran + passed
    if watch.line >= 0 and ran < forget_policy.running_ms:
        return Watch(watch.line, ran, now_ms), None
    line = min(newest_ms, now_ms) - forget_policy.after_ms - forget_policy.margin_ms
    return Watch(max(line, 0), 0, now_ms), None if watch.line < 0 else watch.line
