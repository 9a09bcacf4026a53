"""Java's options for processes that live a minute or two."""

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

from tools.servers.java_here import java, java_version

#: The variable with Java's options.
JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
#: One compiler, and a collector without threads of its own. The jars were checked when they were
#: downloaded: checking the code of every class again takes an eighth of the CPU time of a start.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)


def short_java() -> str:
    """Value of JAVA_OPTIONS for a Spark that lives a minute or two; with the archive of its
    classes, if there is one.
    """
    archive = spark_classes()
    return quick_options(f"-XX:SharedArchiveFile={archive}" if archive.exists() else "")


def quick_options(more: str) -> str:
    """Value of JAVA_OPTIONS with one more option."""
    return " ".join([os.environ.get(JAVA_OPTIONS, ""), *QUICK_JAVA, more]).strip()


@cache
def spark_classes() -> Path:
    """Where `tools.processes.spark_classes` puts its archive: it fits the jars of one folder, and
    one Java.
    """
    key = hashlib.sha256(java_version(java()).encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-classes-{key}.jsa"
