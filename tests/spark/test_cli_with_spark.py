"""The commands that need Spark: a replay through it equals the plain loop, and run, state, explain
and doctor work together.
"""

import os
import subprocess
import sys
from functools import partial
from itertools import chain
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from pulsar_rebalancer.lab.replay import decisions
from pulsar_rebalancer.lab.replay import spark as through_spark
from sinks.recordings.copy_topic import positioned
from sinks.secret_file import Secret
from sinks.topics.files.topic import FileTopicWriter
from sinks.topics.topic_settings import Connections
from sinks.wire.signing_keys import SigningKey, SigningSettings
from strategies.fold.engine import EngineSettings
from streaming.job import JobResult, run_job
from streaming.outputs.counts_of_micro_batch import KINDS, Written
from streaming.settings import JobSettings
from tests.telemetry_lines import intent, load_report, sweep
from tests.topic_uris import topic_settings
from tests.world.uneven_log import EAGER_WORDS, uneven
from tools.processes.set_words import set_words

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
KEY = SigningKey(Secret(b"i" * 32))


def mixed() -> list[bytes]:
    """Two clusters, records that cannot be decoded, one that comes too late, one that comes twice,
    and three drains: only the last has the job's signature.
    """
    pairs = zip(uneven("zebra", 4), uneven("ant", 4), strict=True)
    lines = list(chain.from_iterable(pairs))
    late = load_report("hot:1", 0, cluster="ant")
    signers = (bytes, SigningKey(Secret(b"o" * 32)).sign, KEY.sign)
    drains = [sign(intent(61, broker="hot:1", cluster="ant")) for sign in signers]
    return [
        b"oops",
        *lines[:9],
        b"",
        lines[2],
        b'{"v":1,"kind":"?","cluster":"ant"}',
        *lines[9:12],
        *drains,
        *lines[12:],
        late,
        sweep(999, "x", cluster="\x07"),
    ]


@pytest.mark.parametrize(
    ("records", "partitions"), [(20, 3), pytest.param(1, 1, marks=pytest.mark.slow)]
)
def test_a_replay_through_spark_writes_the_same_three_files(
    spark: SparkSession, tmp_path: Path, records: int, partitions: int
) -> None:
    (tmp_path / "key").write_bytes(KEY.secret.reveal())
    signing = SigningSettings(intents_key_file=str(tmp_path / "key"))
    job = JobSettings(
        max_records_per_batch=records,
        shuffle_partitions=partitions,
        connections=Connections(signing=signing),
    )
    lines, engine = mixed(), EngineSettings()

    by_loop = decisions.decide(positioned(lines, "log.jsonl"), engine, job.connections)
    placed = positioned(lines, "log.jsonl")
    by_spark = through_spark.decide(
        placed, engine, job, lambda _: None, run=partial(run_job, session=spark)
    )

    files = {}
    for name, answers in (("loop", by_loop), ("spark", by_spark)):
        written = decisions.write(decisions.collect(chain.from_iterable(answers)), tmp_path / name)
        files[name] = {kind: path.read_bytes() for kind, path in written.items()}
    assert files["loop"] == files["spark"]
    assert files["loop"]["rejected"].count(b"\n") == 8
    assert b'"code":"drain"' in files["loop"]["commands"]
    assert files["loop"]["rounds"].count(b"\n") == 8


def test_a_replay_that_is_interrupted_shows_no_half_result() -> None:
    def stopped(*_: object, **__: object) -> JobResult:
        return JobResult("SIGINT", Written())

    with pytest.raises(KeyboardInterrupt):
        list(through_spark.decide([], EngineSettings(), JobSettings(), lambda _: None, run=stopped))


@pytest.mark.slow
def test_run_then_state_then_explain_then_doctor(tmp_path: Path) -> None:
    with FileTopicWriter(tmp_path / "telemetry") as topic:
        topic.append(uneven(rounds=3))
    topics = topic_settings({name: (tmp_path / name).as_uri() for name in ("telemetry", *KINDS)})
    checkpoint = str(tmp_path / "checkpoint")
    words = [*EAGER_WORDS, *set_words({"job.checkpoint": checkpoint, **topics})]

    ran = rebalancer("run", "--drain", *words)
    state = rebalancer("state", "--json", checkpoint)
    explained = rebalancer("explain", "hot:1", *words)
    doctor = rebalancer("doctor", "--json", *words)

    assert (ran.returncode, ran.stdout) == (0, b"")
    assert b"stopped (drained) after 3 rounds" in ran.stderr
    assert b"pulsar.version: 4.2 (auto, by the telemetry: " in ran.stderr
    brokers = {row["broker"]: row for row in orjson.loads(state.stdout)["brokers"]}
    assert list(brokers) == ["hot:1", "idle:1"]
    assert (brokers["hot:1"]["round"], brokers["hot:1"]["age_ms"]) == (3, 2000)
    assert explained.stdout.startswith(b"broker hot:1\n  round 1 of c, ")
    findings = {one["check"]: one["status"] for one in orjson.loads(doctor.stdout)["findings"]}
    assert findings.pop("spark start") in ("ok", "warn")
    assert set(findings.values()) == {"ok"}


def rebalancer(*words: str) -> subprocess.CompletedProcess[bytes]:
    """The command line in a process of its own, as Spark is started once per process."""
    command = [sys.executable, "-m", "pulsar_rebalancer.cli.main", *words]
    ours = {name: value for name, value in os.environ.items() if "REBALANCER_" not in name}
    return subprocess.run(
        command, cwd=ROOT, env=ours, capture_output=True, timeout=300, check=False
    )
