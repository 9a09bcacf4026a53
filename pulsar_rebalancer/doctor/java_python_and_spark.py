"""Checks of Java, Python and Spark on this machine, which the job needs to start."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module, metadata
from pathlib import Path

from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate, ok
from strategies.errors import RebalancerError, SettingsError
from strategies.ordered_sum import ordered_sum
from streaming.cluster.shipping import check_environment, python_name
from streaming.settings import JobSettings, local_path

OLDEST_JAVA = 17
PYSPARK = "4.2"
_JAVA_REMEDY = (
    f"install Java {OLDEST_JAVA} or newer (Debian, Ubuntu: apt-get install "
    "openjdk-17-jre-headless) or set JAVA_HOME"
)
_SPARK_REMEDY = "pip install 'pulsar-rebalancer[spark]'"


def check_java(environment: Mapping[str, str]) -> Finding:
    """Checks the Java that Spark starts: that of JAVA_HOME, otherwise the first on PATH."""
    java = _java(environment)
    if java is None:
        return Finding("java", "fail", "not found: no JAVA_HOME, and no java on PATH", _JAVA_REMEDY)
    try:
        printed = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("java", "fail", f"{java} does not run ({error})", _JAVA_REMEDY)
    version = java_version(printed)
    return evaluate(
        "java",
        f"Java {version}, {java}",
        Rule(version is None, "warn", f"{java} -version prints no version", _JAVA_REMEDY),
        Rule((version or 0) < OLDEST_JAVA, "fail", f"{java} is Java {version}", _JAVA_REMEDY),
    )


def java_version(printed: str) -> int | None:
    """The major version in the output of `java -version`: 8 for 1.8.0_402, 17 for 17.0.15. None if
    there is none.
    """
    found = re.search(r'version "(\d+)(?:\.(\d+))?', printed)
    if found is None:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def check_python(environment: Mapping[str, str], job: JobSettings) -> Finding:
    """Checks that Spark's workers run the driver's Python version. On this machine they run the
    same interpreter by default.
    """
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    theirs = environment.get("PYSPARK_PYTHON")
    if job.master.startswith("local") or not theirs:
        return ok("python", f"Python {ours}, {sys.executable}, also for Spark's workers")
    program = [theirs, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        version = subprocess.run(
            program, capture_output=True, text=True, timeout=30, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return Finding(
            "python",
            "warn",
            f"PYSPARK_PYTHON={theirs} does not run here",
            f"make sure it is Python {ours} on every worker",
        )
    return evaluate(
        "python",
        f"Python {ours}, workers: {theirs}",
        Rule(
            version != ours,
            "fail",
            f"PYSPARK_PYTHON={theirs} is Python {version}, this is {ours}",
            f"point it at a Python {ours}",
        ),
    )


def check_shipped(job: JobSettings) -> list[Finding]:
    """Checks that the archive of packages for workers on other machines, if it is on this one,
    matches the installed packages.
    """
    archive = local_path(job.environment)
    if archive is None or job.master.startswith("local"):
        return []
    try:
        check_environment(archive)
    except SettingsError as error:
        return [Finding("packages", "fail", error.complaints[0], f"rebalancer ship {archive}")]
    return [
        ok(
            "packages",
            f"{archive} matches the installed packages, for workers with {python_name()}",
        )
    ]


def check_pyspark() -> Finding:
    """Checks that pyspark can be imported and has the version that the job is built for."""
    try:
        import_module("streaming.spark_session")
        version = metadata.version("pyspark")
    except ImportError as error:
        return Finding("pyspark", "fail", f"cannot be imported ({error})", _SPARK_REMEDY)
    text = f"version {version}"
    return evaluate(
        "pyspark",
        text,
        Rule(
            not version.startswith(PYSPARK),
            "fail",
            f"{text}, the job needs {PYSPARK}",
            _SPARK_REMEDY,
        ),
    )


def check_spark_start(job: JobSettings) -> Finding:
    """Starts a Spark session on this machine and waits for the answer of one Python worker."""
    try:
        with tempfile.TemporaryDirectory(prefix="rebalancer-doctor-") as folder:
            return _start(replace(job, master="local[1]"), Path(folder))
    except (RebalancerError, OSError, ImportError) as error:
        return Finding(
            "spark start", "fail", str(error), "see the findings above: they are the usual causes"
        )


def _start(job: JobSettings, folder: Path) -> Finding:
    from streaming.spark_session import start_session, stop_session

    before = time.monotonic()
    session = start_session(job, folder / "spark.log", short=True)
    try:
        total = ordered_sum(
            row[0]
            for row in session.range(10).mapInArrow(lambda batches: batches, "id long").collect()
        )
    finally:
        stop_session(session)
    took = time.monotonic() - before
    return evaluate(
        "spark start",
        f"a tiny job with a Python worker took {took:.1f} s",
        Rule(
            total != 45,
            "fail",
            f"a sum of 45 came back as {total}",
            "please report this as a bug",
        ),
        Rule(
            took > 20,
            "warn",
            f"a tiny job took {took:.0f} s",
            "the machine is busy or slow: the job will start slowly too",
        ),
    )


def _java(environment: Mapping[str, str]) -> str | None:
    home = environment.get("JAVA_HOME")
    if home:
        return os.path.join(home, "bin", "java")
    return shutil.which("java", path=environment.get("PATH"))
