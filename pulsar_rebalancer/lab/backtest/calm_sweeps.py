"""What sweeps without any news do to the evidence about foreign moves, all at once: back-tests pass
over the rounds in which nothing happens.
"""

from collections.abc import Iterable
from dataclasses import replace

from strategies.cluster.model import Sweep
from strategies.cluster.rival_state import Rivals, forget_old_commands
from strategies.fold.foreign_moves import is_gap, usual_pause


def is_calm(rivals: Rivals, now_ms: int) -> bool:
    """True if further sweeps in which all brokers list the same bundles would find nothing: no
    bundle is between two brokers, no command is open, no bundle rests, and rounds do not yield.
    """
    evidence = (rivals.absent, rivals.left, rivals.arrived, rivals.suspects)
    findings = (rivals.news, rivals.moves, rivals.against_ms)
    open_until = max(
        (own.until_ms for commands in rivals.ours.values() for own in commands), default=-1
    )
    return not any((*evidence, *findings)) and rivals.yielding_ms is None and open_until < now_ms


def learn_calm_sweeps(rivals: Rivals, last_ms: int, times_ms: Iterable[int], last: Sweep) -> Rivals:
    """Returns the evidence after such sweeps, each of which closed a round. `last_ms`: time of the
    sweep before them; `times_ms`: of all of them; `last`: the newest one.
    """
    for ts in times_ms:
        passed, last_ms = ts - last_ms, ts
        if is_gap(passed, rivals.pass_ms):
            rivals = replace(rivals, watching_ms=ts)
        rivals = replace(rivals, pass_ms=usual_pause(passed, rivals.pass_ms))
    return forget_old_commands(replace(rivals, leader=last.leader, shedding=last.shedding), last_ms)
