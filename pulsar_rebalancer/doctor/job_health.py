"""Whether the job runs and how old its last round is, for health checks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pulsar_rebalancer.cli.finding import Finding, Status, ok
from pulsar_rebalancer.decisions.status import INTERVALS
from sinks.topics.epochs import RoundEpoch, newest_rounds
from strategies.errors import RebalancerError
from strategies.figures.describe import age
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import checkpoint_folder, guarded
from streaming.checkpoint.guard_file import GUARD, guard_of, read_guard
from streaming.checkpoint.locks import CheckpointInUse, Holder, holder
from streaming.settings import JobSettings

_CHECK = "job"
_WARMING = "reads telemetry without publishing (warm start), so that it closes no round yet"


def check_job(job: JobSettings, engine: EngineSettings, now_ms: int, *, expected: bool) -> Finding:
    """Checks that a job runs and closes rounds. No job is a failure only if one is `expected`.
    `now_ms`: since the epoch.
    """
    try:
        folder = checkpoint_folder(job)
        if not (folder / GUARD).exists():
            return _no_job(f"no job has used the checkpoint {folder}", expected)
        if _free(folder, job, engine):
            return _no_job(f"no job runs with the checkpoint {folder}", expected)
        guard = read_guard(folder)
        limit_ms = INTERVALS * engine.round.interval_ms + engine.round.lateness_ms
        if guard.warm is not None and not guard.warm.done:
            return _warming(folder, limit_ms, now_ms)
        found = _rounds(job, guard.epoch, None if not expected else now_ms - limit_ms)
    except RebalancerError as error:
        status: Status = "fail" if expected else "warn"
        return Finding(
            _CHECK,
            status,
            f"not checked: {error}",
            "see the findings about the checkpoint and topics.rounds",
        )
    by = holder(folder)
    begun_ms = _begun_ms(folder, by)
    health = _age(
        _who(by, now_ms), found, limit_ms, now_ms, just_begun=now_ms - begun_ms <= limit_ms
    )
    return (
        health
        if expected or health.status != "ok"
        else _all_clusters(health, found, now_ms - limit_ms)
    )


def _begun_ms(folder: Path, by: Holder | None) -> int:
    """When the job began to close rounds. The guard file is written again when a warm start
    ends.
    """
    written_ms = _written_ms(folder / GUARD)
    return written_ms if by is None else max(written_ms, by.since_ms)


def _warming(folder: Path, limit_ms: int, now_ms: int) -> Finding:
    """Whether a job that closes no rounds yet finishes micro-batches."""
    by = holder(folder)
    commits = folder / "commits"
    ended_ms = map(_written_ms, commits.iterdir() if commits.is_dir() else ())
    text = f"{_who(by, now_ms)}; {_WARMING}"
    if now_ms - max([_begun_ms(folder, by), *ended_ms]) <= limit_ms:
        return ok(_CHECK, text)
    return Finding(
        _CHECK,
        "fail",
        f"{text}, and finished no micro-batch within the last {age(limit_ms)}",
        _STANDS_STILL,
    )


def _written_ms(file: Path) -> int:
    """When a file was written; 0 if it has been deleted, as Spark does with old ones."""
    try:
        return int(file.stat().st_mtime * 1000)
    except FileNotFoundError:
        return 0


def _rounds(job: JobSettings, epoch: int, since_ms: int | None) -> list[RoundEpoch]:
    """The newest round of each cluster that this checkpoint's job has published."""
    newest = newest_rounds(job.connections.topics.rounds, job.connections.access, since_ms=since_ms)
    return [one for (_, of), one in newest.items() if of == epoch]


def _free(folder: Path, job: JobSettings, engine: EngineSettings) -> bool:
    """Whether no job uses the checkpoint. Settings that do not match it are reported by
    `check_checkpoint`.
    """
    try:
        with guarded(folder, guard_of(job, engine), timeout_s=0, keep=False):
            return True
    except CheckpointInUse:
        return False
    except RebalancerError:
        return True


def _no_job(text: str, expected: bool) -> Finding:
    return (
        Finding(_CHECK, "fail", text, "start it: rebalancer run") if expected else ok(_CHECK, text)
    )


def _who(by: Holder | None, now_ms: int) -> str:
    if by is None:
        return "runs"
    return f"runs (process {by.pid} on {by.host}, for {age(now_ms - by.since_ms)})"


def _age(
    who: str, found: list[RoundEpoch], limit_ms: int, now_ms: int, *, just_begun: bool
) -> Finding:
    if not found and just_begun:
        return ok(_CHECK, f"{who}; has closed no round yet")
    if not found:
        return Finding(
            _CHECK,
            "fail",
            f"{who}, but closed no round within the last {age(limit_ms)}",
            _STANDS_STILL,
        )
    newest = max(found, key=lambda one: one.ts)
    text = f"{who}; last round {newest.round} of {newest.cluster}, {age(now_ms - newest.ts)} ago"
    if now_ms - newest.ts > limit_ms:
        if just_begun:
            return ok(_CHECK, f"{text}: has just started and is catching up")
        return Finding(_CHECK, "fail", f"{text}: more than {age(limit_ms)}", _STANDS_STILL)
    return ok(_CHECK, text)


def _all_clusters(health: Finding, found: Sequence[RoundEpoch], since_ms: int) -> Finding:
    """Warns of clusters without recent rounds, and of those that are set aside. The job is healthy
    if one cluster is: the others may be out of use.
    """
    newest = max((one.ts for one in found), default=0)
    late = sorted(one.cluster for one in found if one.ts < since_ms <= newest)
    aside = sorted(one.cluster for one in found if one.ts >= since_ms and one.is_set_aside)
    if aside:
        return Finding(
            _CHECK,
            "warn",
            f"{health.text}; set aside: {', '.join(aside)}",
            "`rebalancer status` names the reason and what to do",
        )
    if not late:
        return health
    return Finding(
        _CHECK,
        "warn",
        f"{health.text}; no recent round of {', '.join(late)}",
        "check that `rebalancer collect` runs for each cluster",
    )


_STANDS_STILL = (
    "check that `rebalancer collect` runs and reaches the brokers, then read the job's last "
    "log lines: if the number of records behind "
    "falls, the job is catching up"
)
