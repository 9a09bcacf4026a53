"""What a move cost the clients of its bundle, as far as its executor has measured it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class MoveCost:
    """None where nothing was measured.

    `unowned_ms`: from the answer to the last unload until a broker owned the bundle;
    `first_message_ms`: from then until the new owner had a message of a topic that had traffic;
    `topics`: topics of the bundle; `unloads`: how often it was unloaded, a repair included;
    `manager`: the load manager of the cluster.
    """

    unowned_ms: int | None = None
    first_message_ms: int | None = None
    topics: int | None = None
    unloads: int | None = None
    manager: Literal["modular", "extensible"] | None = None


NOT_MEASURED = MoveCost()
