"""The job when a broker of its Pulsar topics dies and comes back, or a topic is gone: nothing lost,
one clear line, no stack trace.
"""

from contextlib import closing
from pathlib import Path

import pytest

from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.topic_settings import TopicUri
from strategies.bundles import parse_bundle, topic_hash
from streaming.outputs.counts_of_micro_batch import KINDS
from tests.replayed import replayed
from tests.servers.job_stories import settings_of
from tests.servers.test_pulsar_job import topics
from tests.spark.workshop import uneven
from tests.topic_uris import topic_of
from tools.processes.process import Process
from tools.processes.real_job import eager
from tools.servers.pulsar_processes import PulsarProcesses
from tools.servers.pulsar_topics import put, values

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.faults]


def test_the_job_outlasts_a_broker_and_names_a_topic_that_is_gone(
    modular: PulsarProcesses, tmp_path: Path
) -> None:
    cluster, lines = modular.cluster, uneven(12)
    places, expected = topics(cluster, "away"), replayed(lines, eager("threshold"))
    settings = {**settings_of(places, tmp_path), "pulsar.deadline_ms": 20_000}
    put(cluster, places.telemetry, lines[:16])
    with Process(tmp_path / "job.log", "run", settings=settings) as job:
        job.wait_until(lambda: len(values(cluster, places.rounds)) == 4)
        victim = owner_of(cluster.settings(tmp_path), places.telemetry)
        modular.servers[victim].kill()
        put(cluster, places.telemetry, lines[16:20])
        modular.start([victim])
        put(cluster, places.telemetry, lines[20:])
        job.wait_until(lambda: len(set(values(cluster, places.rounds))) == 12)
        for kind in KINDS:
            assert list(dict.fromkeys(values(cluster, getattr(places, kind)))) == expected[kind]

        # Otherwise a broker makes it anew for whoever asks for it, and the job goes on with what
        # comes.
        cluster.post("namespaces/job/away/autoTopicCreation", {"allowAutoTopicCreation": False})
        cluster.delete(f"persistent/{topic_of(places.telemetry).name}?force=true")
        assert job.ended() == 1
        assert " error: " in job.last_line
        assert str(places.telemetry) in job.last_line
        assert job.traces == []


def owner_of(settings: PulsarSettings, uri: str | TopicUri) -> str:
    name = topic_of(uri).name
    namespace = name.rpartition("/")[0]
    with closing(PulsarAdmin(settings)) as admin:
        for bundle in (f"{namespace}/{range_}" for range_ in admin.ranges(namespace)):
            parsed = parse_bundle(bundle)
            if parsed is not None and topic_hash(f"persistent://{name}") in parsed[1]:
                return str(admin.owner(bundle))
    raise AssertionError(f"{uri} is in no bundle")
