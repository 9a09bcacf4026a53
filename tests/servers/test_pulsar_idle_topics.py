"""A stock Pulsar deletes empty topics that nobody uses: ours stay, with their retention, and
`doctor` names those that would not.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from pulsar_rebalancer.doctor.disk_and_topics import check_topics
from pulsar_rebalancer.doctor.finding import Finding
from pulsar_rebalancer.settings.merge_sources import load
from tests.control_topic import TOPICS
from tests.servers.pulsar_commands import words as access
from tests.topic_uris import topic_settings
from tests.unit.command_line import rebalancer
from tools.processes.set_words import set_words
from tools.servers.pulsar_cluster import Manager, PulsarCluster, pulsar_cluster, token_of
from tools.waiting import eventually

pytestmark = pytest.mark.servers
#: The stock setting is on; only the interval between two looks is not a minute.
INTERVAL_S = 5
LONG_S = 240.0


@pytest.fixture(
    scope="module", params=["modular", pytest.param("extensible", marks=pytest.mark.slow)]
)
def stock(
    request: pytest.FixtureRequest, jdk: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarCluster]:
    manager: Manager = request.param
    more = {"brokerDeleteInactiveTopicsFrequencySeconds": str(INTERVAL_S)}
    with pulsar_cluster(
        tmp_path_factory.mktemp(f"stock-{manager}"),
        manager,
        brokers=1,
        guarded=manager == "extensible",
        more=more,
    ) as cluster:
        yield cluster


@dataclass(frozen=True)
class Namespace:
    cluster: PulsarCluster
    name: str
    folder: Path

    def topics(self) -> set[str]:
        answer = self._get(f"persistent/{self.name}")
        return {topic.rpartition("/")[2] for topic in answer if "__change_events" not in topic}

    def retention(self, topic: str) -> object:
        return self._get(f"persistent/{self.name}/{topic}/retention?applied=true")[
            "retentionTimeInMinutes"
        ]

    def as_before(self, topic: str) -> None:
        """Makes a topic as `topics create` made it once: with a retention and nothing else."""
        self.cluster.put(f"persistent/{self.name}/{topic}", None)
        self.set_retention(topic)

    def set_retention(self, topic: str) -> None:
        kept = {"retentionTimeInMinutes": 600, "retentionSizeInMB": -1}
        self.cluster.post(f"persistent/{self.name}/{topic}/retention", kept)

    def deletes(self, topic: str) -> None:
        """Waits until a topic that nothing protects is gone: the brokers have looked."""
        self.cluster.put(f"persistent/{self.name}/{topic}", None)
        assert topic in self.topics()
        eventually(lambda: topic not in self.topics(), LONG_S, f"{topic} is not deleted")

    def words(self) -> list[str]:
        uris = {topic: f"{self.cluster.service_url}/{self.name}/{topic}" for topic in TOPICS}
        return [*access(self.cluster.settings(self.folder)), *set_words(topic_settings(uris))]

    def examined(self) -> Mapping[str, Finding]:
        found = check_topics(load(flags=self.words()[1::2]).connections)
        return {finding.check.removeprefix("topic "): finding for finding in found}

    def _get(self, path: str) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {token_of('admin')}"} if self.cluster.guarded else {}
        answer = httpx.get(
            f"http://{self.cluster.brokers[0]}/admin/v2/{path}", headers=headers, timeout=60
        )
        return dict.fromkeys(found) if isinstance(found := answer.json(), list) else found


def namespace(cluster: PulsarCluster, name: str, folder: Path) -> Namespace:
    """An empty one, whose policies the brokers have begun to follow."""
    cluster.namespace(name, 4)
    made = Namespace(cluster, name, folder)
    made.as_before("first")
    return made


def test_topics_that_we_make_outlive_every_look_at_idle_ones(
    stock: PulsarCluster, tmp_path: Path
) -> None:
    """With and without partitions; one deleted topic after another shows that the brokers have
    looked twice.
    """
    made = {number: namespace(stock, f"idle/made{number}", tmp_path) for number in (1, 2)}
    for partitions, ours in made.items():
        words = ("topics", "create", "--partitions", partitions, *ours.words(), "--json")
        for created in (True, False):
            told = rebalancer(*words).json["topics"]
            assert [one["created"] for one in told] == [created] * len(TOPICS)
        # A client comes and goes, as every program of ours does: without one, brokers have not
        # loaded the partitions.
        with closing(stock.client()) as client:
            for topic in TOPICS:
                client.create_producer(f"persistent://{ours.name}/{topic}").close()

    for number in range(2):
        made[2].deletes(f"unprotected-{number}")

    for partitions, ours in made.items():
        kept = {
            topic if partitions == 1 else f"{topic}-partition-{number}"
            for topic in TOPICS
            for number in range(partitions)
        }
        assert kept <= ours.topics()
        assert {ours.retention(topic) for topic in TOPICS} == {168 * 60}
        found = ours.examined().values()
        assert {finding.status for finding in found} == {"ok"}
        assert all("keeps records for 168 h" in finding.text for finding in found)


def test_topics_of_an_older_version_are_named_and_mended(
    stock: PulsarCluster, tmp_path: Path
) -> None:
    ours = namespace(stock, "idle/older", tmp_path)
    import pulsar

    with closing(stock.client()) as client:
        users = [
            client.create_reader(f"persistent://{ours.name}/{topic}", pulsar.MessageId.earliest)
            for topic in TOPICS
        ]
        for topic in TOPICS:
            ours.set_retention(topic)
        before = ours.examined()
        done = rebalancer("topics", "create", "--update", *ours.words(), "--json")
        for user in users:
            user.close()
    ours.deletes("unprotected")

    assert {finding.status for finding in before.values()} == {"warn"}
    rounds = before["rounds"]
    assert "brokers delete it, with its retention, while it is empty and unused" in rounds.text
    assert "rebalancer topics create --update" in rounds.remedy
    assert {(one["created"], one["updated"]) for one in done.json["topics"]} == {(False, True)}
    assert set(TOPICS) <= ours.topics()
    assert {finding.status for finding in ours.examined().values()} == {"ok"}


def test_a_retention_that_was_lost_with_the_topic_is_named_and_mended(
    stock: PulsarCluster, tmp_path: Path
) -> None:
    ours = namespace(stock, "idle/lost", tmp_path)
    ours.as_before("rounds")
    eventually(lambda: "rounds" not in ours.topics(), LONG_S, "the older topic is not deleted")
    with closing(stock.client()) as client:
        client.create_producer(f"persistent://{ours.name}/rounds").send(b"{}")

    lost = ours.examined()["rounds"]
    rebalancer("topics", "create", "--update", *ours.words())

    assert (lost.status, "keeps no records" in lost.text) == ("fail", True)
    assert "rebalancer topics create --update" in lost.remedy
    assert ours.examined()["rounds"].status == "ok"
