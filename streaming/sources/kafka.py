"""A Kafka topic as a streaming source: Spark's own connector, with the columns of every other telemetry source."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sinks.topics.kafka.settings import KafkaAccess
from sinks.topics.start_position import start_ms
from sinks.topics.uri import TopicUri
from streaming.settings import JobSettings


def kafka_records(spark: SparkSession, topic: TopicUri, job: JobSettings, access: KafkaAccess) -> DataFrame:
    """Columns of `RECORDS`; the position names the topic by its URI. A record without value counts as an empty one.

    With `source.format` raw also `key`, `headers` (names and values) and `ts` (ms), and a record without value stays one.
    """
    raw = job.source.format == "raw"
    options = {**source_options(topic, job.max_records_per_batch, access), "includeHeaders": str(raw).lower()}
    rows = spark.readStream.format("kafka").options(**options).load()
    value = F.coalesce(F.col("value"), F.lit(b""))
    size = F.octet_length(value).cast("long")
    if raw:
        value = F.col("value")
    kept = F.when(size > job.wire.max_record_bytes, F.substring(value, 1, job.wire.kept_bytes)).otherwise(value)
    around = (F.col("key"), F.col("headers"), F.unix_millis(F.col("timestamp")).alias("ts")) if raw else ()
    return rows.select(
        F.lit(str(topic)).alias("topic"),
        F.col("partition").cast("long").alias("partition"),
        F.col("offset"),
        kept.alias("value"),
        size.alias("size"),
        *around,
    )


def source_options(topic: TopicUri, max_records: int, access: KafkaAccess) -> Mapping[str, str]:
    """Options of Spark's Kafka reader."""
    settings = access.settings
    moment = start_ms(settings.start)
    start = {"startingOffsets": settings.start}
    if moment is not None:
        # Partitions without a record after that moment begin with the next one that comes.
        start = {"startingTimestamp": str(moment), "startingOffsetsByTimestampStrategy": "latest"}
    return {
        **client_options(topic, access),
        **start,
        "subscribe": topic.name,
        "maxOffsetsPerTrigger": str(max_records),
        "failOnDataLoss": str(settings.fail_on_data_loss).lower(),
        "groupIdPrefix": "pulsar-rebalancer",
        "kafkaConsumer.pollTimeoutMs": str(settings.timeout_ms),
        # Spark would ask three times for the end of the topic without a word; the job tries again itself, and says so.
        "fetchOffset.numRetries": "1",
        # Spark asks for a partition's range after every read, and the answer comes behind that of a read ahead, which waits for this long
        # where there is nothing yet: half a second of every micro-batch by Kafka's default.
        "kafka.fetch.max.wait.ms": "10",
    }


def client_options(topic: TopicUri, access: KafkaAccess) -> Mapping[str, str]:
    """What reader and writer have in common: Kafka's own properties behind the prefix `kafka.`."""
    properties = {"bootstrap.servers": topic.servers, **access.for_java()}
    return {f"kafka.{key}": value for key, value in properties.items()}
