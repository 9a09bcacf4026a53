"""Settings of the quota of each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class BulkheadSettings:
    """Quota of one cluster per minute of its own record time, of bytes per third of a minute: the
    larger of a fixed part and of a part per broker of the last round, which before the first round
    is `first_bytes`.

    A broker of the extensible load manager sends at most 24 records a minute (two, every 5 s): the
    defaults leave four times as much. A report has about 310 bytes per bundle, and ZooKeeper takes
    at most 1 MiB of it by default, 3,300 bundles: each of the collector's three passes a minute has
    room for them on every broker, two passes in one third for 2,500 on each, and one broker alone
    may have all that fit into a record: the bytes of a record beyond 1 MiB count twice. Bytes are
    what a record costs, and what a cluster sends at once is what the others wait for.
    """

    records: Annotated[
        int,
        Setting("Records of a cluster that its quota always has", "records/min", ge=1, le=2**53),
    ] = 10_000
    records_per_broker: Annotated[
        int, Setting("Records for each broker of the last round", "records/min", ge=0, le=2**31)
    ] = 100
    bytes: Annotated[
        int,
        Setting(
            "Bytes of a cluster's records that its quota always has", "bytes/20 s", ge=1, le=2**53
        ),
    ] = 16 * 2**20
    bytes_per_broker: Annotated[
        int, Setting("Bytes for each broker of the last round", "bytes/20 s", ge=0, le=2**40)
    ] = 3 * 2**19
    first_bytes: Annotated[
        int,
        Setting(
            "Bytes of the records of a cluster whose brokers no round knows yet",
            "bytes/20 s",
            ge=1,
            le=2**53,
        ),
    ] = 64 * 2**20
