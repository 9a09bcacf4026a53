"""A real Pulsar cluster in one process: ZooKeeper, one bookie and some brokers, each on a loopback
address of its own.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from tools.not_here import NotHere
from tools.servers.certificates import Certificates, certificates
from tools.servers.jvm import HERE, Program, Server, free_ports

if TYPE_CHECKING:
    import pulsar

_HEAP = ("-Xms64m", "-Xmx512m", "-XX:MaxDirectMemorySize=384m")
_LAUNCHER = HERE / "PulsarCluster.java"
PULSAR_42 = Program("pulsar", _HEAP, _LAUNCHER)
#: Its milestone 1: no later artefacts of 5.0 can be had whole.
PULSAR_50 = Program("pulsar50", _HEAP, _LAUNCHER, oldest_java=21)
#: The release of clusters whose tests name none; the environment may name the other one.
PULSAR = {"4.2": PULSAR_42, "5.0": PULSAR_50}[os.environ.get("PULSAR_RELEASE", "4.2")]
Manager = Literal["modular", "extensible"]
CLUSTER = "c"
_MANAGERS: Mapping[Manager, str] = {
    "modular": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "extensible": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
}
#: Clusters that run beside each other have different addresses in logs.
_SUBNETS: Mapping[tuple[str, Manager], int] = {
    ("pulsar", "modular"): 41,
    ("pulsar", "extensible"): 42,
    ("pulsar50", "modular"): 45,
    ("pulsar50", "extensible"): 46,
}
#: What the brokers say of themselves.
_VERSIONS = {"pulsar": "4.2.4", "pulsar50": "5.0.0-M1"}
_PULSAR = "org.apache.pulsar"
_KEY = b"a key that exists for tests only"
_BASE = ("lang", "io", "nio", "util.zip")
_OPEN = (
    *(f"java.base/java.{name}" for name in _BASE),
    *(
        f"java.base/{name}"
        for name in (
            "sun.net",
            "sun.nio.ch",
            "jdk.internal.loader",
            "jdk.internal.misc",
            "jdk.internal.platform",
        )
    ),
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)


@dataclass(frozen=True)
class Tls:
    """Listeners that the same brokers have beside the plain ones: their ports, equal for all, and
    what to trust.
    """

    web: int
    binary: int
    ca: Path


@dataclass(frozen=True)
class PulsarCluster:
    """A running cluster. `brokers`: their ids, host:port of the web service; `service_url`: for
    clients.
    """

    server: Server
    brokers: tuple[str, ...]
    service_url: str
    guarded: bool
    tls: Tls | None = None
    version: str = _VERSIONS[PULSAR.name]

    def settings(self, folder: Path, token: str | None = None) -> PulsarSettings:
        """How our programs reach it. A guarded cluster is shown a token from a file in `folder`:
        the administrator's, or the one given.
        """
        shown = token or (token_of("admin") if self.guarded else None)
        if shown is not None:
            (folder / "token").write_text(shown, "utf-8")
        urls = ",".join(f"http://{broker}" for broker in self.brokers)
        return PulsarSettings(CLUSTER, urls, "" if shown is None else str(folder / "token"))

    def secure(self, folder: Path) -> PulsarSettings:
        """The same by TLS."""
        if self.tls is None:
            raise NotHere("the listeners with TLS need keys that openssl makes; install it")
        host = self.brokers[0].rpartition(":")[0]
        return replace(
            self.settings(folder),
            admin_urls=f"https://{host}:{self.tls.web}",
            tls_port=self.tls.web,
            tls_ca_file=str(self.tls.ca),
        )

    def put(self, path: str, body: object) -> None:
        """Makes something by the admin API, as an administrator would."""
        self._ask("PUT", path, body)

    def post(self, path: str, body: object) -> None:
        """Sets something by the admin API."""
        self._ask("POST", path, body)

    def delete(self, path: str) -> None:
        """Removes something by the admin API."""
        self._ask("DELETE", path, None)

    def namespace(self, name: str, bundles: int) -> str:
        """Makes tenant (if it is not there) and namespace; its name."""
        tenant = name.partition("/")[0]
        if self._status("GET", f"tenants/{tenant}", None) == 404:
            self.put(f"tenants/{tenant}", {"allowedClusters": [CLUSTER]})
        self.put(f"namespaces/{name}", {"bundles": {"numBundles": bundles}})
        return name

    def topic(self, name: str, partitions: int = 0) -> str:
        """Makes a topic (and its namespace) that keeps everything for an hour; its URI. `name`:
        tenant/namespace/topic.
        """
        namespace, _, short = name.rpartition("/")
        if self._status("GET", f"namespaces/{namespace}", None) == 404:
            self.namespace(namespace, 4)
            self.post(
                f"namespaces/{namespace}/retention",
                {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1},
            )
        self.put(
            f"persistent/{namespace}/{short}" + ("/partitions" if partitions else ""),
            partitions or None,
        )
        return f"{self.service_url}/{name}"

    def secure_topic(self, name: str) -> str:
        """The same; its URI names the port with TLS."""
        assert self.tls is not None
        self.topic(name)
        return f"pulsar+ssl://{self.brokers[0].rpartition(':')[0]}:{self.tls.binary}/{name}"

    def forget(self, uri: str) -> None:
        """Takes a topic's retention away and deletes all ledgers but the one that is written to
        next.
        """
        path = f"persistent/{uri.partition('://')[2].partition('/')[2]}"
        self.post(f"{path}/retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
        self.put(f"{path}/unload", None)

    def trim(self, uri: str) -> None:
        """Deletes what nothing keeps, now."""
        self.post(f"persistent/{uri.partition('://')[2].partition('/')[2]}/trim", None)

    def client(self) -> "pulsar.Client":
        """A client of the binary protocol, as the users' producers and consumers are."""
        import pulsar

        login = pulsar.AuthenticationToken(token_of("admin")) if self.guarded else None
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        return pulsar.Client(self.service_url, authentication=login, logger=quiet)

    def _ask(self, method: str, path: str, body: object) -> None:
        status = self._status(method, path, body)
        assert status in (200, 204), f"{method} {path} answered {status}"

    def _status(self, method: str, path: str, body: object) -> int:
        import httpx

        headers = {"Authorization": f"Bearer {token_of('admin')}"} if self.guarded else {}
        url = f"http://{self.brokers[0]}/admin/v2/{path}"
        while True:
            answer = httpx.request(method, url, headers=headers, json=body, timeout=30)
            if answer.status_code != 307:
                return answer.status_code
            url = answer.headers["location"]


@contextlib.contextmanager
def pulsar_cluster(
    folder: Path,
    manager: Manager = "modular",
    *,
    brokers: int = 3,
    guarded: bool = False,
    more: Mapping[str, str] | None = None,
    program: Program = PULSAR,
) -> Iterator[PulsarCluster]:
    """A cluster that is ready; killed at the end, and of its folder only the log and the
    configuration stay.

    `guarded`: every client must show a token, see `token_of`, and 4.2 has listeners with TLS.
    `more`: of broker.conf. `program`: the Pulsar release.
    """
    zookeeper, bookie, web_tls, binary_tls, *ports = free_ports(4 + 2 * brokers)
    # Of 5.0, the loader of Bouncy Castle that listeners with TLS need cannot be had.
    made = certificates(program.cache) if guarded and program is PULSAR_42 else None
    tls = (
        None if made is None or not made.broker_key.exists() else Tls(web_tls, binary_tls, made.ca)
    )
    security = (token_settings() if guarded else {}) | (
        _secured(tls, made) if tls is not None and made is not None else {}
    )
    hosts = [
        f"127.0.{_SUBNETS[program.name, manager]}.{number}" for number in range(1, brokers + 1)
    ]
    files = []
    for host, web, binary in zip(hosts, ports[:brokers], ports[brokers:], strict=True):
        files.append(folder / f"{host}.conf")
        settings = broker_settings(manager, zookeeper, host) | {
            "webServicePort": str(web),
            "brokerServicePort": str(binary),
        }
        files[-1].write_text(
            "".join(
                f"{key}={value}\n"
                for key, value in (settings | security | dict(more or {})).items()
            ),
            "utf-8",
        )
    arguments = (CLUSTER, str(zookeeper), str(bookie), str(folder), *map(str, files))
    server = Server(
        program, "PulsarCluster", arguments, folder, "The Pulsar cluster is ready", java_options()
    )
    ids = tuple(f"{host}:{web}" for host, web in zip(hosts, ports[:brokers], strict=True))
    try:
        server.start()
        url = f"pulsar://{hosts[0]}:{ports[brokers]}"
        yield PulsarCluster(server, ids, url, guarded, tls, _VERSIONS[program.name])
    finally:
        server.stop()
        clear(folder, {*server.findings, *files})


def token_of(role: str, **claims: int) -> str:
    """A token that guarded clusters believe; `admin` may do everything, others nothing. `claims`:
    `exp`, say.
    """
    parts = ({"alg": "HS256"}, {"sub": role, **claims})
    signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_base64(hmac.new(_KEY, signed.encode(), hashlib.sha256).digest())}"


def java_options() -> tuple[str, ...]:
    """What Pulsar wants of a Java of today."""
    opened = [word for package in _OPEN for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    return ("-Dio.netty.tryReflectionSetAccessible=true", *opened)


def broker_settings(manager: Manager, zookeeper: int, host: str) -> dict[str, str]:
    """A broker.conf for tests, without ports."""
    return {
        "clusterName": CLUSTER,
        "metadataStoreUrl": f"zk:127.0.0.1:{zookeeper}",
        "configurationMetadataStoreUrl": f"zk:127.0.0.1:{zookeeper}",
        "advertisedAddress": host,
        "bindAddress": host,
        "loadManagerClassName": _MANAGERS[manager],
        # Whatever moves or splits a bundle is ours.
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
        "loadBalancerAutoUnloadSplitBundlesEnabled": "false",
        # Figures are seconds old, not minutes.
        "loadBalancerReportUpdateMinIntervalMillis": "2000",
        "loadBalancerReportUpdateThresholdPercentage": "0",
        "loadBalancerReportUpdateMaxIntervalMinutes": "1",
        "statsUpdateFrequencyInSecs": "5",
        "statsUpdateInitialDelayInSecs": "5",
        # Loopback has no speed, and a broker without one makes no report.
        "loadBalancerOverrideBrokerNicSpeedGbps": "0.1",
        "metadataStoreSessionTimeoutMillis": "6000",
        "managedLedgerDefaultEnsembleSize": "1",
        "managedLedgerDefaultWriteQuorum": "1",
        "managedLedgerDefaultAckQuorum": "1",
        "managedLedgerCacheSizeMB": "16",
        "functionsWorkerEnabled": "false",
        "transactionCoordinatorEnabled": "false",
        "webSocketServiceEnabled": "false",
        "numIOThreads": "2",
        "numHttpServerThreads": "8",
    }


def token_settings() -> dict[str, str]:
    """What a guarded broker has besides."""
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "authenticationProviders": f"{_PULSAR}.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(_KEY).decode()}",
        "brokerClientAuthenticationPlugin": f"{_PULSAR}.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token_of('admin')}",
    }


def _secured(tls: Tls, made: Certificates) -> dict[str, str]:
    return {
        "webServicePortTls": str(tls.web),
        "brokerServicePortTls": str(tls.binary),
        "tlsCertificateFilePath": str(made.ca),
        "tlsKeyFilePath": str(made.broker_key),
        "tlsTrustCertsFilePath": str(made.ca),
    }


def clear(folder: Path, kept: set[Path]) -> None:
    """Storage and unpacked native libraries are large."""
    for path in folder.iterdir():
        if path in kept:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
