"""What the executor says of each command and approval, however often either was published."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from sinks.wire.record_decoding import decode_answer
from strategies.cluster.model import Outcome
from tools.processes.loop import Loop


def verdicts(loop: Loop) -> Mapping[str, Collection[bytes]]:
    """Different outcomes of each id. A job that was killed may publish a command again; the answer
    to that, `replayed`, repeats a verdict and is none (decision 0140).
    """
    found: dict[str, set[bytes]] = defaultdict(set)
    for value in loop.read("outcomes"):
        answer = decode_answer(value)
        if not (answer.reason or "").startswith("replayed:"):
            found[answer.command_id if isinstance(answer, Outcome) else answer.approval_id].add(
                value
            )
    return found


def moves(loop: Loop) -> Counter[str]:
    """Commands that were carried out, by bundle. An executor that was killed between publishing an
    outcome and committing publishes the same outcome again.
    """
    applied = {(one.bundle, one.command_id) for one in loop.outcomes() if one.status == "applied"}
    return Counter(bundle for bundle, _ in sorted(applied))


def every_command_has_one_outcome(given: Collection[str], loop: Loop) -> bool:
    """`given`: ids of the commands that have to have one; no other may have several."""
    found = verdicts(loop)
    return set(given) <= set(found) and all(len(values) == 1 for values in found.values())
