"""The judge: a command and facts become an effect, or the permission to carry the command out.
Nothing acts here.

The rules themselves are in strategies/executor/admission.py. Facts about the cluster cost calls, so
they are asked for only where the command and what the executor knows raise no objection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sinks.executor.effect import Effect, effect_of_failed_read, refusal
from sinks.executor.settings import ExecutorConfig
from strategies.cluster.model import Command
from strategies.errors import AdminError, Unauthorized
from strategies.executor.admission import (
    ClusterFacts,
    CommandFacts,
    may_be_applied,
    may_be_considered,
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`effect`: what came of a command that is not carried out; None: it may be. `owner`,
    `brokers`: of the bundle, of the cluster.
    """

    effect: Effect | None
    owner: str | None = None
    brokers: Sequence[str] = ()


def judge(
    command: Command,
    known: CommandFacts,
    look: Callable[[Command], ClusterFacts],
    config: ExecutorConfig,
) -> Judgement:
    """`look` asks the cluster and is called once at most; it raises AdminError. Raises
    Unauthorized.
    """
    objection = may_be_considered(command, known, config.rules)
    if objection is not None:
        return Judgement(refusal(objection, None))
    try:
        cluster = look(command)
    except Unauthorized:
        raise
    except AdminError as error:
        return Judgement(effect_of_failed_read(error))
    objection = may_be_applied(command, cluster)
    if objection is not None:
        return Judgement(refusal(objection, cluster.owner), cluster.owner)
    effect = None if config.apply else Effect("dry-run", _intention(command), cluster.owner)
    return Judgement(effect, cluster.owner, cluster.brokers)


def _intention(command: Command) -> str:
    where = "" if command.destination is None else f" to {command.destination}"
    return f"dry-run: would {command.action} {command.bundle} from {command.source}{where}"
