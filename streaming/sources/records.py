"""The columns of all telemetry sources, and batches of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from sinks.topics.files.topic import TopicRecord
from sinks.topics.topic_settings import TopicUri
from sinks.wire.record_decoding import WireLimits

#: Columns of all telemetry sources. `value` is only the beginning of a record if `size` is larger.
RECORDS = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", LongType()),
        StructField("offset", LongType()),
        StructField("value", BinaryType()),
        StructField("size", LongType()),
    ]
)
_ARROW = to_arrow_schema(RECORDS)
#: A task costs about as much as decoding this number of bytes.
WORTH_A_TASK = 1_000_000


@dataclass(frozen=True)
class TopicSource:
    """The topic to read, and the limits of a micro-batch."""

    topic: TopicUri
    max_records: int
    max_bytes: int
    tasks: int
    limits: WireLimits

    def options(self) -> dict[str, str]:
        """As string options of Spark's reader. They contain the names of secret files, never the
        secrets.
        """
        return {"source": msgspec.json.encode(self).decode()}


def record_batch(records: Sequence[TopicRecord]) -> Any:
    """Records as an Arrow batch."""
    topics, partitions, offsets = zip(*(record.position for record in records), strict=True)
    values, sizes = [record.value for record in records], [record.size for record in records]
    return pa.record_batch(
        [list(topics), list(partitions), list(offsets), values, sizes], schema=_ARROW
    )
