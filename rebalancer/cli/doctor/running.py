"""Whether the job runs, and how old its last round is: what a health check asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rebalancer.cli.doctor.finding import Finding, Status, ok
from rebalancer.cli.doctor.wording import age
from sinks.topics.epochs import RoundEpoch, newest_rounds
from strategies.engine import EngineSettings
from strategies.errors import RebalancerError
from streaming.checkpoint.guard import GUARD, CheckpointInUse, Holder, checkpoint_folder, guard_of, guarded, holder, read_guard
from streaming.settings import JobSettings

_CHECK = "job"
#: A round that is older than this many intervals means that something stands still.
INTERVALS = 3
_START = "start it: rebalancer run"


def check_job(job: JobSettings, engine: EngineSettings, now_ms: int, *, expected: bool) -> Finding:
    """A running job closes rounds; that none runs is a failure only where one is `expected`. `now_ms`: since the epoch."""
    try:
        folder = checkpoint_folder(job)
        if not (folder / GUARD).exists():
            return _no_job(f"none has used the checkpoint {folder}", expected)
        if _free(folder, job, engine):
            return _no_job(f"none runs with the checkpoint {folder}", expected)
        limit_ms = INTERVALS * engine.round.interval_ms + engine.round.lateness_ms
        found = _rounds(job, read_guard(folder).epoch, None if not expected else now_ms - limit_ms)
    except RebalancerError as error:
        status: Status = "fail" if expected else "warn"
        return Finding(_CHECK, status, f"cannot be told: {error}", "see the findings about the checkpoint and topics.rounds")
    health = _age(holder(folder), found, limit_ms, now_ms)
    return health if expected or health.status != "ok" else _all_clusters(health, found, now_ms - limit_ms)


def _rounds(job: JobSettings, epoch: int, since_ms: int | None) -> list[RoundEpoch]:
    """The newest round of each cluster by this checkpoint's job."""
    newest = newest_rounds(job.topics.rounds, job.access, since_ms=since_ms)
    return [told for (_, of), told in newest.items() if of == epoch]


def _free(folder: Path, job: JobSettings, engine: EngineSettings) -> bool:
    """Settings that do not fit are another check's finding."""
    try:
        with guarded(folder, guard_of(job, engine), timeout_s=0, keep=False):
            return True
    except CheckpointInUse:
        return False
    except RebalancerError:
        return True


def _no_job(text: str, expected: bool) -> Finding:
    return Finding(_CHECK, "fail", text, _START) if expected else ok(_CHECK, text)


def _age(by: Holder | None, found: list[RoundEpoch], limit_ms: int, now_ms: int) -> Finding:
    who = "runs" if by is None else f"runs (process {by.pid} on {by.host}, for {age(now_ms - by.since_ms)})"
    if not found and by is not None and now_ms - by.since_ms <= limit_ms:
        return ok(_CHECK, f"{who}; it has closed no round yet")
    if not found:
        return Finding(_CHECK, "fail", f"{who}, but closed no round within the last {age(limit_ms)}", _STANDS_STILL)
    newest = max(found, key=lambda told: told.ts)
    text = f"{who}; last round {newest.round} of {newest.cluster}, {age(now_ms - newest.ts)} ago"
    if now_ms - newest.ts > limit_ms:
        just_begun = by is not None and now_ms - by.since_ms <= limit_ms
        if just_begun:
            return ok(_CHECK, f"{text}: it has begun and catches up")
        return Finding(_CHECK, "fail", f"{text}: more than {age(limit_ms)}", _STANDS_STILL)
    return ok(_CHECK, text)


def _all_clusters(health: Finding, found: Sequence[RoundEpoch], since_ms: int) -> Finding:
    """A job is well as long as one of its clusters is; the others may have been given up."""
    newest = max((told.ts for told in found), default=0)
    late = sorted(told.cluster for told in found if told.ts < since_ms <= newest)
    if not late:
        return health
    remedy = "see that `rebalancer collect` runs for each cluster"
    return Finding(_CHECK, "warn", f"{health.text}; none for longer of {', '.join(late)}", remedy)


_STANDS_STILL = (
    "see that `rebalancer collect` runs and reaches the brokers, then look at the job's last lines: a number of records behind that falls "
    "means that it catches up"
)
