"""Settings of all topics in folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.cluster.budget import HOUR_MS
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Retention, as the servers of Kafka and Pulsar have it for their topics."""

    retention_hours: Annotated[
        int,
        Setting(
            "Writers delete segments whose newest line is older, but never the newest segment; "
            "0 = never",
            "h",
            ge=0,
            le=876_000,
        ),
    ] = 0
    #: Stop if records were deleted before they were read, otherwise go on with the oldest one: the
    #: job's `fail_on_data_loss`.
    fail_on_data_loss: bool = True

    @property
    def retention_ms(self) -> int | None:
        """None = no segment is deleted."""
        return self.retention_hours * HOUR_MS or None
