"""The Java process of `spark-submit`, which starts before this one: the connection to it, and what
its command line set. Imports no package but Spark's and ours without dependencies: it runs before
the archive of packages is unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext, __version__
from pyspark.java_gateway import launch_gateway

from streaming.cluster.shipping import UNPACKED

#: Of `spark-submit`, which brings its own Python code.
SPARK_VERSION = __version__
#: Spark sets it for the Python process that it starts.
_PORT = "PYSPARK_GATEWAY_PORT"


def is_submitted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `spark-submit` started this process."""
    return _PORT in environment


def connect() -> Any:
    """Connects to the Java process that started this one; returns its view of Java's classes."""
    if SparkContext._gateway is None:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
    return SparkContext._jvm


def spark_setting(name: str) -> str:
    """A setting that `spark-submit` got; empty if it got none."""
    return connect().java.lang.System.getProperty(name) or ""


def shipped_archive(archives: str) -> str:
    """The archive of packages among `archives` (spark.archives), without its folder's name; empty
    if there is none.
    """
    for archive in archives.split(","):
        place, _, folder = archive.partition("#")
        if folder == UNPACKED:
            return place
    return ""
