"""Whether another job gives commands in this one's place: executors carry out those of the newest epoch only."""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.cli.doctor.finding import Finding, ok
from sinks.topics.epochs import History, histories
from sinks.topics.readable import Skipped
from strategies.errors import RebalancerError
from streaming.checkpoint.guard import GUARD, checkpoint_folder, read_guard
from streaming.settings import JobSettings

_CHECK = "epochs"


def check_epochs(job: JobSettings) -> Finding:
    """Reads the rounds topic once: has a newer job taken over from this checkpoint's, are two jobs writing?"""
    try:
        folder = checkpoint_folder(job)
        ours = read_guard(folder).epoch if (folder / GUARD).exists() else None
        skipped = Skipped(str(job.topics.rounds), "round")
        told = histories(job.topics.rounds, job.access, skipped)
    except RebalancerError as error:
        return Finding(_CHECK, "warn", f"cannot be told: {error}", "see the findings about the checkpoint and topics.rounds")
    return _overtaken(told, ours) or _two_of_one_epoch(told) or _two_write(told) or _foreign(skipped, _in_order(told, ours))


def _overtaken(told: Mapping[str, History], ours: int | None) -> Finding | None:
    """Only clusters that this checkpoint's job has served: others may have jobs of their own on the same topics."""
    for cluster, history in told.items():
        if ours is not None and ours in history.seen and history.newest > ours:
            text = f"a job of epoch {history.newest} serves cluster {cluster}; this checkpoint has epoch {ours}, its commands are refused"
            remedy = (
                "leave this job stopped; to take over again, stop the other one and name a new job.checkpoint, which takes the next epoch"
            )
            return Finding(_CHECK, "fail", text, remedy)
    return None


def _two_of_one_epoch(told: Mapping[str, History]) -> Finding | None:
    """A micro-batch that is repeated says the same again; only another job says something else."""
    for cluster, history in told.items():
        if history.differing:
            text = (
                f"two jobs of epoch {history.newest} write for cluster {cluster}, and executors obey both: {history.differing} rounds came "
                "twice and differ"
            )
            return Finding(_CHECK, "fail", text, "stop both, and start one of them with a new job.checkpoint, which takes the next epoch")
    return None


def _two_write(told: Mapping[str, History]) -> Finding | None:
    for cluster, history in told.items():
        if history.late:
            text = (
                f"two jobs have written for cluster {cluster} at a time: {history.late} rounds of epoch {history.overtaken} or older came "
                f"after a newer job had begun (newest: epoch {history.newest}), the last of them {history.since} rounds ago"
            )
            return Finding(_CHECK, "warn", text, f"stop the job of epoch {history.overtaken} if it still runs; its commands are refused")
    return None


def _foreign(skipped: Skipped, found: Finding) -> Finding:
    """The finding, and the records that are no rounds: harmless to the job, but something else writes to its topic."""
    if not skipped.count:
        return found
    return Finding(_CHECK, "warn", "\n".join([found.text, *skipped.lines()]), "find what else writes to topics.rounds; only the job may")


def _in_order(told: Mapping[str, History], ours: int | None) -> Finding:
    newest = max((history.newest for history in told.values()), default=0)
    on_topic = f"newest on topics.rounds: {newest}" if newest else "none on topics.rounds yet"
    return ok(_CHECK, f"{on_topic}; " + ("a new checkpoint takes the next" if ours is None else f"this checkpoint has {ours}"))
