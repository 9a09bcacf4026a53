"""The sentence about a bundle that is too hot for one broker: its largest topic, what more
partitions would do, and the dispatch limits in force. Commands in it are for people: nothing runs
them.
"""

import re
from math import ceil

from strategies.cluster.topics_of_bundle import TopicsOfBundle

MB = 1_000_000
_PARTITION = re.compile(r"(.+)-partition-\d+")


def hot_topic_text(known: TopicsOfBundle, max_partition_mb: float) -> str | None:
    """One or more sentences; None for a bundle without a topic that has traffic."""
    if not known.topics or known.topics[0].throughput <= 0:
        return None
    topic = known.topics[0]
    text = f"its largest topic is {topic.name} with {_rate(topic.throughput)}"
    if known.dispatch is not None:
        text += f" and {_limits_text(*known.dispatch)}"
    needed = ceil(topic.throughput / (max_partition_mb * MB))
    if needed < 2:
        return f"{text}; below {max_partition_mb:g} MB/s, a topic needs no more partitions"
    return f"{text}; {_partitions_text(known, needed, max_partition_mb)}"


def _partitions_text(known: TopicsOfBundle, needed: int, limit: float) -> str:
    topic = known.topics[0].name
    whole, aim = _PARTITION.fullmatch(topic), f"below {limit:g} MB/s"
    if whole is None:
        return (
            f"{needed} partitions bring each {aim}, but a topic gets none later: make another one "
            "and let its clients change to it: pulsar-admin topics create-partitioned-topic "
            f"{topic}-partitioned -p {needed}"
        )
    if not known.partitions:
        return f"{needed} times as many partitions bring each {aim}"
    partitions = needed * known.partitions
    return (
        f"{partitions} partitions instead of {known.partitions} bring each {aim}: pulsar-admin "
        f"topics update-partitioned-topic {whole[1]} -p {partitions}"
    )


def _limits_text(messages: int, bytes_: int) -> str:
    limits = [f"{messages:,} msg/s"] if messages > 0 else []
    limits += [_rate(bytes_)] if bytes_ > 0 else []
    return f"a dispatch limit of {' and '.join(limits)}" if limits else "no dispatch limit"


def _rate(throughput: float) -> str:
    megabytes = throughput / MB
    return f"{megabytes:.1f} MB/s" if megabytes >= 0.1 else f"{throughput / 1000:.1f} kB/s"
