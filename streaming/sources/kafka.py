"""A Kafka topic as a streaming source: Spark's own connector with the columns of all telemetry
sources.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sinks.topics.kafka.settings import KafkaAccess, start_ms
from sinks.topics.topic_settings import TopicUri
from streaming.settings import JobSettings


def kafka_records(
    spark: SparkSession, topic: TopicUri, job: JobSettings, access: KafkaAccess
) -> DataFrame:
    """Columns of `RECORDS`; positions contain the topic's URI. A record without value becomes an
    empty one.

    With `source.format` raw also `key`, `headers` (names and values) and `ts` (ms), and a missing
    value stays null.
    """
    raw = job.connections.source.format == "raw"
    options = source_options(topic, job.max_records_per_batch, access)
    rows = (
        spark.readStream.format("kafka").options(**options, includeHeaders=str(raw).lower()).load()
    )
    value = F.coalesce(F.col("value"), F.lit(b""))
    size = F.octet_length(value).cast("long")
    if raw:
        value = F.col("value")
    beginning = F.when(
        size > job.connections.wire.max_record_bytes,
        F.substring(value, 1, job.connections.wire.kept_bytes),
    ).otherwise(value)
    metadata = (
        (F.col("key"), F.col("headers"), F.unix_millis(F.col("timestamp")).alias("ts"))
        if raw
        else ()
    )
    return rows.select(
        F.lit(str(topic)).alias("topic"),
        F.col("partition").cast("long").alias("partition"),
        F.col("offset"),
        beginning.alias("value"),
        size.alias("size"),
        *metadata,
    )


def source_options(topic: TopicUri, max_records: int, access: KafkaAccess) -> Mapping[str, str]:
    """Options of Spark's Kafka reader."""
    settings = access.settings
    since_ms = start_ms(settings.start)
    start = {"startingOffsets": settings.start}
    if since_ms is not None:
        # A partition without a record after that time starts at its end.
        start = {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    return {
        **client_options(topic, access),
        **start,
        "subscribe": topic.name,
        "maxOffsetsPerTrigger": str(max_records),
        "failOnDataLoss": str(settings.fail_on_data_loss).lower(),
        "groupIdPrefix": "pulsar-rebalancer",
        "kafkaConsumer.pollTimeoutMs": str(settings.timeout_ms),
        # Spark would retry a request for the end of the topic three times silently; the job retries
        # itself, and logs it.
        "fetchOffset.numRetries": "1",
        # Spark requests a partition's range after every read, and the answer follows that of a
        # prefetch, which waits for this long if there are no records: half a second of every
        # micro-batch by Kafka's default.
        "kafka.fetch.max.wait.ms": "10",
    }


def client_options(topic: TopicUri, access: KafkaAccess) -> Mapping[str, str]:
    """Options common to reader and writer: Kafka's own properties with the prefix `kafka.`."""
    return {
        f"kafka.{key}": value
        for key, value in {"bootstrap.servers": topic.servers, **access.for_java()}.items()
    }
