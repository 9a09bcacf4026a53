"""Whether another job has replaced this one: executors apply commands of the newest epoch only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pulsar_rebalancer.cli.finding import Finding, ok
from sinks.topics.epochs import History, histories
from sinks.topics.readable import Skipped
from strategies.errors import RebalancerError
from streaming.checkpoint.guard import checkpoint_folder
from streaming.checkpoint.guard_file import written_guard
from streaming.settings import JobSettings

_CHECK = "epochs"


def check_epochs(job: JobSettings) -> Finding:
    """Reads the rounds topic once. Reports a newer job that has taken over, and two jobs that write
    at the same time.
    """
    try:
        guard = written_guard(checkpoint_folder(job))
        ours = None if guard is None else guard.epoch
        skipped = Skipped(str(job.connections.topics.rounds), "round")
        written = histories(job.connections.topics.rounds, job.connections.access, skipped)
    except RebalancerError as error:
        return Finding(
            _CHECK,
            "warn",
            f"not checked: {error}",
            "see the findings about the checkpoint and topics.rounds",
        )
    return next(_problems(written, ours), None) or _foreign(skipped, _in_order(written, ours))


def _problems(written: Mapping[str, History], ours: int | None) -> Iterator[Finding]:
    """What is wrong, the worst first."""
    for cluster, history in written.items():
        # Only clusters that this checkpoint's job has served: other clusters may have other jobs on
        # the same topics.
        if ours is not None and ours in history.seen and history.newest > ours:
            yield Finding(
                _CHECK,
                "fail",
                f"a job of epoch {history.newest} serves cluster {cluster}; executors refuse "
                f"commands of this checkpoint's epoch {ours}",
                "do not start this job; to take over again, stop the other one and name a new "
                "job.checkpoint, which takes the next epoch",
            )
    for cluster, history in written.items():
        # A repeated micro-batch publishes the same rounds again. Rounds that differ are from
        # another job.
        if history.differing:
            yield Finding(
                _CHECK,
                "fail",
                f"two jobs of epoch {history.newest} write for cluster {cluster}, and "
                "executors accept commands of both: "
                f"{history.differing} rounds are on the topic twice, with different content",
                "stop both, and start one of them with a new job.checkpoint, which takes the "
                "next epoch",
            )
    for cluster, history in written.items():
        if history.late:
            yield Finding(
                _CHECK,
                "warn",
                f"two jobs have written for cluster {cluster} at a time: {history.late} "
                f"rounds of epoch {history.overtaken} or older "
                f"follow a newer job's first round (newest: epoch {history.newest}), the last "
                f"of them {history.since} rounds ago",
                f"stop the job of epoch {history.overtaken} if it runs; executors refuse its "
                "commands",
            )


def _foreign(skipped: Skipped, found: Finding) -> Finding:
    """The finding with the records that are not rounds. They do not harm the job, but another
    program writes to its topic.
    """
    if not skipped.count:
        return found
    return Finding(
        _CHECK,
        "warn",
        "; ".join([found.text, *skipped.lines()]),
        "find the other program that writes to topics.rounds; only the job may",
    )


def _in_order(written: Mapping[str, History], ours: int | None) -> Finding:
    newest = max((history.newest for history in written.values()), default=0)
    on_topic = f"newest on topics.rounds: {newest}" if newest else "none on topics.rounds yet"
    return ok(
        _CHECK,
        f"{on_topic}; "
        + ("a new checkpoint takes the next" if ours is None else f"this checkpoint has {ours}"),
    )
