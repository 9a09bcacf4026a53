"""Checks of the job: whether it runs, how old its last round is, and whether another job has
replaced it; and of the executor's folder: write access, the journal, and the pause file.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pulsar_rebalancer.decisions.read_status import INTERVALS
from pulsar_rebalancer.doctor.disk_and_topics import existing, writable
from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate, ok
from sinks.executor.journal import JournalInUse, unfinished_commands
from sinks.executor.settings import ExecutorSettings, pause_file, state_folder
from sinks.topics.epochs import History, RoundEpoch, histories, newest_rounds
from sinks.topics.open_topics import Skipped
from strategies.errors import RebalancerError, SettingsError
from strategies.figures.texts_of_counts_names_and_ages import age
from strategies.fold.engine import EngineSettings
from streaming.checkpoint.guard import CheckpointInUse, Holder, checkpoint_folder, guarded, holder
from streaming.checkpoint.remembered_and_changed_settings import (
    GUARD,
    guard_of,
    read_guard,
    written_guard,
)
from streaming.settings import JobSettings

_JOB, _EPOCHS, _EXECUTOR = "job", "epochs", "executor"
_SEE = "see the findings about the checkpoint and topics.rounds"
_STANDS_STILL = (
    "check that `rebalancer collect` runs and reaches the brokers, then read the job's last "
    "log lines: if the number of records behind "
    "falls, the job is catching up"
)


_REMEDY = "set executor.state to a folder that this user may write"
_DAMAGED = (
    "restore the file, or set executor.state to a new folder once the commands in the journal "
    "have expired"
)


def check_job(job: JobSettings, engine: EngineSettings, now_ms: int, *, expected: bool) -> Finding:
    """Checks that a job runs and closes rounds. No job is a failure only if one is `expected`.
    `now_ms`: since the epoch.
    """
    limit_ms = INTERVALS * engine.round.interval_ms + engine.round.lateness_ms
    try:
        folder = checkpoint_folder(job)
        if not (folder / GUARD).exists():
            return _no_job(f"no job has used the checkpoint {folder}", expected)
        if _free(folder, job, engine):
            return _no_job(f"no job runs with the checkpoint {folder}", expected)
        guard = read_guard(folder)
        if guard.warm is not None and not guard.warm.done:
            return _warming(folder, limit_ms, now_ms)
        topics, since_ms = job.connections.topics, now_ms - limit_ms if expected else None
        newest = newest_rounds(topics.rounds, job.connections.access, since_ms=since_ms)
        # Of each cluster, the newest one that this checkpoint's job has published.
        found = [one for (_, of), one in newest.items() if of == guard.epoch]
    except RebalancerError as error:
        return Finding(_JOB, "fail" if expected else "warn", f"not checked: {error}", _SEE)
    by = holder(folder)
    just_begun = now_ms - _begun_ms(folder, by) <= limit_ms
    health = _age(_who(by, now_ms), found, limit_ms, now_ms, just_begun=just_begun)
    if expected or health.status != "ok":
        return health
    return _all_clusters(health, found, now_ms - limit_ms)


def _begun_ms(folder: Path, by: Holder | None) -> int:
    """Finds when the job began to close rounds. The guard file is written again when a warm start
    ends.
    """
    written_ms = _written_ms(folder / GUARD)
    return written_ms if by is None else max(written_ms, by.since_ms)


def _warming(folder: Path, limit_ms: int, now_ms: int) -> Finding:
    """Checks that a job that closes no rounds yet finishes micro-batches."""
    by = holder(folder)
    ended_ms = map(_written_ms, folder.glob("commits/*"))
    text = (
        f"{_who(by, now_ms)}; reads telemetry without publishing (warm start), so that it closes "
        "no round yet"
    )
    return evaluate(
        _JOB,
        text,
        Rule(
            now_ms - max([_begun_ms(folder, by), *ended_ms]) > limit_ms,
            "fail",
            f"{text}, and finished no micro-batch within the last {age(limit_ms)}",
            _STANDS_STILL,
        ),
    )


def _written_ms(file: Path) -> int:
    """Reads when a file was written; 0 if it has been deleted, as Spark does with old ones."""
    try:
        return int(file.stat().st_mtime * 1000)
    except FileNotFoundError:
        return 0


def _free(folder: Path, job: JobSettings, engine: EngineSettings) -> bool:
    """True if no job uses the checkpoint. Settings that do not match it are reported by
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
    return evaluate(_JOB, text, Rule(expected, "fail", text, "start it: rebalancer run"))


def _who(by: Holder | None, now_ms: int) -> str:
    if by is None:
        return "runs"
    return f"runs (process {by.pid} on {by.host}, for {age(now_ms - by.since_ms)})"


def _age(
    who: str, found: list[RoundEpoch], limit_ms: int, now_ms: int, *, just_begun: bool
) -> Finding:
    if not found:
        late = f"{who}, but closed no round within the last {age(limit_ms)}"
        return evaluate(
            _JOB,
            f"{who}; has closed no round yet",
            Rule(not just_begun, "fail", late, _STANDS_STILL),
        )
    newest = max(found, key=lambda one: one.ts)
    text = f"{who}; last round {newest.round} of {newest.cluster}, {age(now_ms - newest.ts)} ago"
    if now_ms - newest.ts <= limit_ms:
        return ok(_JOB, text)
    return evaluate(
        _JOB,
        f"{text}: has just started and is catching up",
        Rule(not just_begun, "fail", f"{text}: more than {age(limit_ms)}", _STANDS_STILL),
    )


def _all_clusters(health: Finding, found: Sequence[RoundEpoch], since_ms: int) -> Finding:
    """Warns of clusters without recent rounds, and of those that are set aside. The job is healthy
    if one cluster is: the others may be out of use.
    """
    newest = max((one.ts for one in found), default=0)
    late = sorted(one.cluster for one in found if one.ts < since_ms <= newest)
    aside = sorted(one.cluster for one in found if one.ts >= since_ms and one.is_set_aside)
    return evaluate(
        _JOB,
        health.text,
        Rule(
            bool(aside),
            "warn",
            f"{health.text}; set aside: {', '.join(aside)}",
            "`rebalancer status` names the reason and what to do",
        ),
        Rule(
            bool(late),
            "warn",
            f"{health.text}; no recent round of {', '.join(late)}",
            "check that `rebalancer collect` runs for each cluster",
        ),
    )


def check_epochs(job: JobSettings) -> Finding:
    """Reads the rounds topic once. Reports a newer job that has taken over, and two jobs that write
    at the same time: executors apply commands of the newest epoch only.
    """
    try:
        guard = written_guard(checkpoint_folder(job))
        ours = None if guard is None else guard.epoch
        skipped = Skipped(str(job.connections.topics.rounds), "round")
        written = histories(job.connections.topics.rounds, job.connections.access, skipped)
    except RebalancerError as error:
        return Finding(_EPOCHS, "warn", f"not checked: {error}", _SEE)
    newest = max((history.newest for history in written.values()), default=0)
    on_topic = f"newest on topics.rounds: {newest}" if newest else "none on topics.rounds yet"
    takes = "a new checkpoint takes the next" if ours is None else f"this checkpoint has {ours}"
    return evaluate(
        _EPOCHS,
        f"{on_topic}; {takes}",
        *_rules_of_epochs(written, ours),
        # They do not harm the job, but another program writes to its topic.
        Rule(
            skipped.count > 0,
            "warn",
            "; ".join([f"{on_topic}; {takes}", *skipped.lines()]),
            "find the other program that writes to topics.rounds; only the job may",
        ),
    )


def _rules_of_epochs(written: Mapping[str, History], ours: int | None) -> Iterator[Rule]:
    """Rules about what may be wrong, the worst first."""
    for cluster, history in written.items():
        # Only clusters that this checkpoint's job has served: other clusters may have other jobs on
        # the same topics.
        yield Rule(
            ours is not None and ours in history.seen and history.newest > ours,
            "fail",
            f"a job of epoch {history.newest} serves cluster {cluster}; executors refuse "
            f"commands of this checkpoint's epoch {ours}",
            "do not start this job; to take over again, stop the other one and name a new "
            "job.checkpoint, which takes the next epoch",
        )
    for cluster, history in written.items():
        # A repeated micro-batch publishes the same rounds again. Rounds that differ are from
        # another job.
        yield Rule(
            history.differing > 0,
            "fail",
            f"two jobs of epoch {history.newest} write for cluster {cluster}, and "
            "executors accept commands of both: "
            f"{history.differing} rounds are on the topic twice, with different content",
            "stop both, and start one of them with a new job.checkpoint, which takes the "
            "next epoch",
        )
    for cluster, history in written.items():
        yield Rule(
            history.late > 0,
            "warn",
            f"two jobs have written for cluster {cluster} at a time: {history.late} "
            f"rounds of epoch {history.overtaken} or older "
            f"follow a newer job's first round (newest: epoch {history.newest}), the last "
            f"of them {history.since} rounds ago",
            f"stop the job of epoch {history.overtaken} if it runs; executors refuse its commands",
        )


def check_executor(settings: ExecutorSettings) -> Finding:
    """Creates nothing. A job needs no executor on its machine, so a folder that cannot be created
    is a warning.
    """
    try:
        folder = state_folder(settings)
        if not folder.exists():
            above = existing(folder)
            return evaluate(
                _EXECUTOR,
                f"{folder} will be created",
                Rule(
                    not writable(above),
                    "warn",
                    f"{folder} cannot be created: {above} is not writable",
                    f"before an executor runs here, {_REMEDY}",
                ),
            )
        if not writable(folder):
            return Finding(
                _EXECUTOR, "fail", f"{folder} is not writable", f"change its owner, or {_REMEDY}"
            )
        text = _journal(folder)
    except SettingsError as error:
        return Finding(_EXECUTOR, "fail", error.complaints[0], _REMEDY)
    except RebalancerError as error:
        return Finding(_EXECUTOR, "fail", str(error), _DAMAGED)
    brake = pause_file(settings)
    return evaluate(
        _EXECUTOR,
        text,
        Rule(
            brake.exists(),
            "warn",
            f"{text}; {brake} exists, so the executor applies no command",
            "delete that file to continue",
        ),
    )


def _journal(folder: Path) -> str:
    try:
        left = unfinished_commands(folder)
    except JournalInUse:
        return f"{folder} is in use by a running executor"
    if left is None:
        return f"{folder} has no journal yet"
    return f"{folder}, no executor runs" + (
        f"; {left} commands are unfinished; the next start checks them" if left else ""
    )
