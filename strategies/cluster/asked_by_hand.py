"""A move or a split that a person asked for, or a round whose split names the child that is to
leave, as a cluster's state has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strategies.cluster.intent_records_and_states import IntentStatus

#: Code of the commands of what a person asked for. A round's have the code of its split.
BY_HAND = "by-hand"
AskedState = Literal["asked", "splitting", "moving", "blocked"]
#: What was asked for is given up after this time (ms), if nothing has let it happen.
ASKED_WAITS_MS = 900_000


@dataclass(frozen=True, slots=True)
class AskedSplit:
    """A request to split a bundle. Its children are the bundles that replace it."""

    #: As in `Intent`; the command of the split names the algorithm in any case.
    algorithm: str | None = None
    positions: tuple[int, ...] = ()
    moves_children: bool = False
    #: The only child that moves, of a round's split.
    leaves: str | None = None
    #: Child that was asked to move → the id of that move.
    children: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A move or a split that a person or a round asked for. Times in ms since the epoch."""

    #: Of the intent; of a round's split, of its command.
    id: str
    bundle: str
    #: The destination, of a split that of its children; None = any broker that may take them.
    to: str | None
    #: The person; of a round's split, the round: `round 12`.
    by: str
    reason: str
    #: Time of the intent's record, or of the round.
    asked_ms: int
    #: When this state began.
    since_ms: int
    state: AskedState = "asked"
    #: The command without an answer so far, and when executors no longer carry it out.
    command_id: str = ""
    expires_at_ms: int = 0
    #: The broker that served the bundle at the last command about it, or about the bundle that it
    #: is a child of. Reports may list no bundle without topics.
    source: str = ""
    action: Literal["move", "split"] = "move"
    #: Of a split.
    cut: AskedSplit = AskedSplit()
    #: Of its commands.
    code: str = BY_HAND
    #: Sentence and next step of the last round.
    text: str = "the next round begins with it"
    advice: str = "Nothing to do."

    @property
    def waits(self) -> bool:
        """True if no round has commanded it yet."""
        return self.state in ("asked", "blocked")

    @property
    def is_by_hand(self) -> bool:
        """True if a person asked for it."""
        return self.code == BY_HAND


def status_of_asked(asked: Asked) -> IntentStatus:
    """Returns the status of an asked move or split for the record of a round."""
    return IntentStatus(
        asked.id,
        asked.action,
        asked.state,
        asked.text,
        asked.advice,
        asked.by,
        asked.reason,
        asked.asked_ms,
        asked.since_ms,
        asked.to,
        bundle=asked.bundle,
    )
