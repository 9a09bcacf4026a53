"""A real Kafka broker (KRaft, one node, one process) on free loopback ports, with a listener for
every kind of security.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.servers.certificates import PASSWORD, Certificates, certificates
from tools.servers.jvm import Program, Server, free_ports

KAFKA = Program("kafka")
USER, USER_PASSWORD = "rebalancer", "let-me-in"
Listener = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MTLS"]
LISTENERS: tuple[Listener, ...] = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MTLS")
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" '
    f'password="-" user_{USER}="{USER_PASSWORD}";'
)


@dataclass
class KafkaBroker:
    """A running broker. `ports`: by listener; they and the data stay the same when it is killed and
    started again.
    """

    server: Server
    ports: Mapping[str, int]
    certificates: Certificates

    def address(self, listener: Listener = "PLAINTEXT") -> str:
        """host:port of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> str:
        """Makes a topic; its URI."""
        from kafka import KafkaAdminClient
        from kafka.admin import NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.address())
        try:
            admin.create_topics(
                [NewTopic(name, partitions, 1, topic_configs=dict(configs or {}))],
                wait_for_metadata=True,
            )
        finally:
            admin.close()
        return f"kafka://{self.address()}/{name}"

    def add_partitions(self, name: str, total: int) -> None:
        """`total`: the number of partitions afterwards."""
        from kafka import KafkaAdminClient
        from kafka.admin import NewPartitions

        admin = KafkaAdminClient(bootstrap_servers=self.address())
        try:
            admin.create_partitions({name: NewPartitions(total)})
        finally:
            admin.close()

    def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        """Sets these configs of a topic; the others stay."""
        from kafka import KafkaAdminClient
        from kafka.admin import ConfigResource, ConfigResourceType

        admin = KafkaAdminClient(bootstrap_servers=self.address())
        try:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))])
        finally:
            admin.close()

    def delete_topic(self, name: str) -> None:
        """The topic and all it holds are gone when this returns, or a moment later."""
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.address())
        try:
            admin.delete_topics([name])
        finally:
            admin.close()

    def delete_records(self, topic: str, before: int) -> None:
        """As retention would: the first partition then begins at the offset `before`."""
        from kafka import KafkaAdminClient, TopicPartition

        admin = KafkaAdminClient(bootstrap_servers=self.address())
        try:
            admin.delete_records({TopicPartition(topic, 0): before})
        finally:
            admin.close()


@contextlib.contextmanager
def kafka_broker(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[KafkaBroker]:
    """A broker that is ready; killed at the end. `settings` are added to its own."""
    made = certificates(KAFKA.cache)
    ports = dict(zip((*LISTENERS, "CONTROLLER"), free_ports(len(LISTENERS) + 1), strict=True))
    properties = folder / "server.properties"
    properties.write_text(
        _text({**_settings(folder / "data", ports, made), **(settings or {})}), "utf-8"
    )
    shutil.copytree(_formatted(), folder / "data")
    server = Server(KAFKA, "kafka.Kafka", (str(properties),), folder, "Kafka Server started")
    try:
        server.start()
        yield KafkaBroker(server, ports, made)
    finally:
        server.stop()


def _formatted() -> Path:
    """Formatted storage, which holds no ports, from the cache."""
    kept = KAFKA.cache / "formatted"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=KAFKA.cache) as scratch:
            data = Path(scratch) / "data"
            properties = Path(scratch) / "format.properties"
            ports = {name: number for number, name in enumerate((*LISTENERS, "CONTROLLER"), 1)}
            properties.write_text(_text(_settings(data, ports, None)), "utf-8")
            users = [
                word
                for one in _MECHANISMS[1:]
                for word in (
                    "--add-scram",
                    f"{one}=[name={USER},password={USER_PASSWORD},iterations=4096]",
                )
            ]
            tool = KAFKA.command(
                "kafka.tools.StorageTool",
                "format",
                "-t",
                _CLUSTER_ID,
                "-c",
                str(properties),
                *users,
            )
            done = subprocess.run(tool, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            with contextlib.suppress(OSError):  # another process was faster
                data.rename(kept)
    return kept


def _settings(data: Path, ports: Mapping[str, int], made: Certificates | None) -> dict[str, str]:
    protocols = {name: "SSL" if name == "MTLS" else name for name in LISTENERS} | {
        "CONTROLLER": "PLAINTEXT"
    }
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": str(data),
        "num.network.threads": "1",
        "num.io.threads": "2",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        # How long a broker that was killed is waited for before its successor may register.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "log.cleaner.dedupe.buffer.size": "2097152",
    }
    return settings | _sasl() | (_ssl(made) if made is not None else {})


def _sasl() -> dict[str, str]:
    return {
        f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config": _PLAIN
        if mechanism == "PLAIN"
        else _SCRAM
        for listener in ("sasl_plaintext", "sasl_ssl")
        for mechanism in _MECHANISMS
    }


def _ssl(made: Certificates) -> dict[str, str]:
    return {
        "ssl.keystore.location": str(made.broker_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(made.trusted_store),
        "ssl.truststore.password": PASSWORD,
        "listener.name.mtls.ssl.client.auth": "required",
    }


def _text(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
