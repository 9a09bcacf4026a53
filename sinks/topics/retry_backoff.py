"""Outages of servers: a process retries with exponential backoff and logs when an outage begins and
ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from strategies.errors import RebalancerError

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_DOUBLINGS = 5


@dataclass
class RetryBackoff:
    """The current outage, shared by two threads: one works, the other only probes the servers
    (`sinks/topics/watch.py`).

    `limit_s`: longest outage before the process gives up. `wait`: sleeps for a number of seconds;
    returns True if the process is to stop. `log`: gets one line when an outage begins and one when
    it ends, whichever thread notices first.

    An outage lasts while probes get no answer or work fails: one failure counts without probes, two
    in a row are needed while probes are answered, because the first may be a leftover of an earlier
    outage. Successful work does not end an outage that probes detect: on Pulsar, a read fails only
    when there is something to read.
    """

    limit_s: float
    wait: Callable[[float], bool]
    log: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    #: Time of the first failure since the last success.
    _failing_since: float | None = field(default=None, init=False)
    #: Failures since the last success, or since the servers answered again.
    _failures: int = field(default=0, init=False)
    #: Whether the servers answer probes; None before the first probe.
    _answering: bool | None = field(default=None, init=False)
    _logged_at: float | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def succeeded(self) -> None:
        """Records that work succeeded."""
        with self._lock:
            self._failing_since, self._failures = None, 0
            self._log_change()

    def wait_or_raise(self, error: RebalancerError) -> None:
        """Logs a failure of the work and sleeps. Raises the error if it is not retryable or the
        outage exceeds the limit.
        """
        now = self.clock()
        with self._lock:
            self._failing_since = now if self._failing_since is None else self._failing_since
            if not error.retryable or now - self._failing_since >= self.limit_s:
                raise error
            pause_s = min(_FIRST_PAUSE_S * 2 ** min(self._failures, _DOUBLINGS), _LONGEST_PAUSE_S)
            self._failures += 1
            self._log_change(error)
        self.wait(pause_s)

    def probed(self, error: RebalancerError | None) -> None:
        """Records the result of a probe: its error, or None."""
        with self._lock:
            if error is None and self._answering is False:
                self._failures = 0
            self._answering = error is None
            self._log_change(error)

    def _log_change(self, error: RebalancerError | None = None) -> None:
        away = self._answering is False or self._failures > (1 if self._answering else 0)
        if away and self._logged_at is None and error is not None:
            self._logged_at = self.clock()
            self.log(f"{str(error).rstrip('.')}; trying again for up to {self.limit_s:g} s")
        elif not away and self._logged_at is not None:
            self.log(
                "the servers of the topics answer again after "
                f"{self.clock() - self._logged_at:.0f} s"
            )
            self._logged_at = None
