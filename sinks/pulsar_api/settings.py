"""How to reach the brokers of one Pulsar cluster: addresses, token, certificates, patience."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from strategies.errors import SettingsError
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """One cluster. Secrets stand in files, which are read anew for every call, so that they can be replaced while the program runs."""

    cluster: Annotated[str, Setting("Name of the Pulsar cluster; commands of other clusters are left to other executors")] = ""
    admin_urls: Annotated[
        str, Setting("Web service of one or more brokers, for example http://a:8080,http://b:8080; the others are found through them")
    ] = ""
    token_file: Annotated[str, Setting("File with the token of a role with super-user rights; empty = no authentication")] = ""
    service_url: Annotated[
        str,
        Setting("Binary protocol of one or more brokers, for example pulsar://a:6650 or pulsar+ssl://a:6651; empty = asked of admin_urls"),
    ] = ""
    load_manager: Annotated[
        Literal["auto", "modular", "extensible"],
        Setting("Which load manager the brokers run; auto = as a broker says"),
    ] = "auto"
    start: Annotated[
        str, Setting("Where a new checkpoint begins to read: earliest, latest, or a time (2026-01-31T12:00:00Z, or ms since 1970)")
    ] = "earliest"
    fail_on_data_loss: Annotated[
        bool, Setting("Stop when messages were deleted before they were read; false = go on with the oldest there is")
    ] = True
    tls_ca_file: Annotated[str, Setting("Certificates of the authorities to trust (PEM); empty = those of this machine")] = ""
    tls_cert_file: Annotated[str, Setting("Own certificate for brokers that ask for one (PEM); empty = none")] = ""
    tls_key_file: Annotated[str, Setting("Key of the own certificate (PEM); empty = it stands in tls_cert_file")] = ""
    tls_port: Annotated[
        int,
        Setting("Port of the brokers' TLS web service where the id of a broker names another one; 0 = the one of the id", ge=0, le=65535),
    ] = 0
    connect_timeout_ms: Annotated[int, Setting("How long a broker may take to accept a connection", "ms", ge=10, le=600_000)] = 3_000
    deadline_ms: Annotated[
        int, Setting("How long a broker may take to answer, redirects and repetitions included", "ms", ge=10, le=3_600_000)
    ] = 30_000
    attempts: Annotated[int, Setting("How often a call is tried when that does no harm", ge=1, le=100)] = 3
    backoff_ms: Annotated[int, Setting("Pause before the first repetition; doubles with each", "ms", ge=0, le=600_000)] = 200


@dataclass(frozen=True, slots=True)
class AdminUrl:
    """Scheme and host:port of a broker's web service."""

    scheme: Literal["http", "https"]
    netloc: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"


def admin_urls(settings: PulsarSettings) -> tuple[AdminUrl, ...]:
    """The configured addresses. Raises SettingsError with everything that is wrong about the cluster's name and them."""
    complaints = [] if settings.cluster else ["pulsar.cluster: is empty; name the Pulsar cluster, as `pulsar-admin clusters list` does"]
    texts = [text.strip() for text in settings.admin_urls.split(",") if text.strip()]
    if not texts:
        complaints.append("pulsar.admin_urls: is empty; name the web service of a broker, for example http://broker-1:8080")
    found = [url for text in texts if isinstance(url := _parse(text), AdminUrl)]
    complaints += [complaint for text in texts if isinstance(complaint := _parse(text), str)]
    if len({url.scheme for url in found}) > 1:
        complaints.append("pulsar.admin_urls: mixes http and https; a token that must be protected must not travel on http: write https")
    if complaints:
        raise SettingsError(complaints)
    return tuple(dict.fromkeys(found))


def base_of(broker: str, urls: tuple[AdminUrl, ...], settings: PulsarSettings) -> AdminUrl:
    """Where a broker's own web service is."""
    scheme = urls[0].scheme
    if scheme == "https" and settings.tls_port:
        return AdminUrl(scheme, f"{broker.rpartition(':')[0]}:{settings.tls_port}")
    return AdminUrl(scheme, broker)


def _parse(text: str) -> AdminUrl | str:
    """The address, or a complaint. What may be a password is not repeated."""
    wrong = "pulsar.admin_urls: {} is no address of a web service; write http://host:port or https://host:port"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return wrong.format("an entry")
    if parts.username is not None or parts.password is not None:
        return "pulsar.admin_urls: an address holds a user or password; put a token into a file and name it as pulsar.token_file"
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
        return wrong.format(text)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    secure = parts.scheme == "https"
    return AdminUrl("https" if secure else "http", f"{host}:{port or (443 if secure else 80)}")
