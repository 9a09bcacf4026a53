"""Whether this installation can decompress records of Kafka topics: each producer chooses its own
codec.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalancer.cli.doctor.finding import Finding, ok
from sinks.topics.kafka.codecs import PACKAGES, broken_codecs
from sinks.topics.settings import Topics
from streaming.settings import uses_kafka


def check_codecs(topics: Topics, broken: Callable[[], list[str]] = broken_codecs) -> list[Finding]:
    """One finding if a topic is on Kafka, otherwise none. `broken`: returns the codecs that do not
    work here.
    """
    if not uses_kafka(topics):
        return []
    names = broken()
    if not names:
        return [ok("kafka codecs", f"{', '.join(PACKAGES)} can be read")]
    packages = " ".join(PACKAGES[name] for name in names if PACKAGES[name])
    remedy = f"pip install {packages}" if packages else "install a Python with zlib"
    text = (
        f"records in {' and '.join(names)} cannot be read: record, replay, explain, shadow, "
        "execute and a new checkpoint fail at them"
    )
    return [Finding("kafka codecs", "fail", text, remedy)]
