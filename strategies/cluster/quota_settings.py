"""Settings of the quota of each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class BulkheadSettings:
    """Quota of one cluster per minute of its own record time: the larger of a fixed part and of a
    part per broker of the last round, which before the first round is `first_bytes`.

    A broker of the extensible load manager sends at most 24 records a minute (two, every 5 s): the
    defaults leave four times as much. A report has about 310 bytes per bundle: with the collector's
    three passes a minute, they leave room for 3,300 bundles on every broker, as many as fit into a
    report in ZooKeeper. Bytes are what a record costs, and what all other clusters wait for; those
    of a record beyond 1 MiB count three times. So one broker alone may have 13,000 bundles.
    """

    records: Annotated[
        int,
        Setting("Records of a cluster that its quota always has", "records/min", ge=1, le=2**53),
    ] = 10_000
    #: Records for each broker of the last round.
    records_per_broker: int = 100
    bytes: Annotated[
        int,
        Setting(
            "Bytes of a cluster's records that its quota always has", "bytes/min", ge=1, le=2**53
        ),
    ] = 32 * 2**20
    #: Bytes for each broker of the last round.
    bytes_per_broker: int = 3 * 2**20
    #: Bytes of the records of a cluster whose brokers no round knows yet.
    first_bytes: int = 64 * 2**20
