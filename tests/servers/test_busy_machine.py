"""A job starts on a machine where Python workers need longer for their imports than the 10 s that
Spark gives them. Nothing is timed: it only has to start.
"""

import re
from pathlib import Path

import pytest

from streaming.outputs.counts_of_micro_batch import KINDS
from tests.spark.workshop import Workshop
from tests.topic_uris import topic_settings
from tools.processes.process import Process
from tools.processes.real_job import recording

pytestmark = [pytest.mark.servers, pytest.mark.spark]
LONG_S = 1_800
#: In place of a module of Python that PySpark imports: workers wait for longer than Java.
SLOW_IMPORT = """
import importlib.util, os, sys, sysconfig, time
if "PYTHON_WORKER_FACTORY_SECRET" in os.environ:
    time.sleep(12)
path = os.path.join(sysconfig.get_path("stdlib"), "pstats.py")
spec = importlib.util.spec_from_file_location("pstats", path)
sys.modules["pstats"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["pstats"])
"""


def test_workers_that_import_for_longer_than_java_waits_start_at_the_first_attempt(
    tmp_path: Path,
) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/pstats.py").write_text(SLOW_IMPORT)
    workshop = Workshop(tmp_path)
    workshop.put(recording("modular-broker-joins")[:40])
    topics = topic_settings({name: workshop.uri(name) for name in ("telemetry", *KINDS)})
    words = ("run", "--drain", "--checkpoint", workshop.checkpoint)
    slow = {"PYTHONPATH": str(tmp_path / "slow")}
    with Process(tmp_path / "run.log", *words, settings=topics, environment=slow) as job:
        assert job.ended(LONG_S) == 0, job.said
    assert re.findall(r" start: (.*attempt.*)$", job.said, re.MULTILINE) == ["attempt 1"]
    assert len(workshop.published()["rounds"]) > 0
