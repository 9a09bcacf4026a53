"""Access to the brokers of one Pulsar cluster: settings (addresses, token, certificates, timeouts),
the files of token and certificates, and which brokers are asked, in which order.

Calls that any broker answers go to the configured addresses, then to the brokers in the cluster's
newest list. The token is sent to all of them, so the list contains only brokers that the cluster
itself listed while this process runs, with the scheme of `pulsar.admin_urls`.
"""

import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from sinks.secret_file import read_secret
from strategies.errors import Refused, SettingsError, raise_complaints
from strategies.settings import Setting

#: Number of listed brokers that one call asks at most; the next call asks others.
MOST_FALLBACKS = 8


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """One cluster. Secrets are in files that are read for every call, so that they can be replaced
    while the program runs.
    """

    cluster: Annotated[
        str, Setting("Name of the Pulsar cluster; executors ignore commands of other clusters")
    ] = ""
    admin_urls: Annotated[
        str,
        Setting(
            "Web service of one or more brokers, for example http://a:8080,http://b:8080; the "
            "cluster's list of brokers gives the others"
        ),
    ] = ""
    token_file: Annotated[
        str,
        Setting("File with the token of a role with super-user rights; empty = no authentication"),
    ] = ""
    service_url: Annotated[
        str,
        Setting(
            "Binary protocol of one or more brokers, for example pulsar://a:6650 or "
            "pulsar+ssl://a:6651; empty = read from a broker"
        ),
    ] = ""
    load_manager: Annotated[
        Literal["auto", "modular", "extensible"],
        Setting("Load manager of the brokers; auto = read from a broker's configuration"),
    ] = "auto"
    start: Annotated[
        str,
        Setting(
            "Where a new checkpoint starts reading: earliest, latest, or a time "
            "(2026-01-31T12:00:00Z, or ms since 1970)"
        ),
    ] = "earliest"
    #: Stop if records were deleted before they were read, otherwise go on with the oldest one: the
    #: job's `fail_on_data_loss`.
    fail_on_data_loss: bool = True
    tls_ca_file: Annotated[
        str, Setting("Certificates of the trusted authorities (PEM); empty = those of the system")
    ] = ""
    tls_cert_file: Annotated[
        str, Setting("Own certificate for brokers that require one (PEM); empty = none")
    ] = ""
    tls_key_file: Annotated[
        str, Setting("Key of the own certificate (PEM); empty = it is in tls_cert_file")
    ] = ""
    tls_port: Annotated[
        int,
        Setting(
            "Port of the brokers' TLS web service, if broker ids contain another one; 0 = the "
            "port of the id",
            ge=0,
            le=65535,
        ),
    ] = 0
    #: Timeout for connecting to a broker.
    connect_timeout_ms: int = 3_000
    deadline_ms: Annotated[
        int,
        Setting(
            "Timeout of a call to a broker, redirects and retries included",
            "ms",
            ge=10,
            le=3_600_000,
        ),
    ] = 30_000
    #: Attempts of a call that can be repeated safely.
    attempts: int = 3
    #: Pause before the first retry; doubles with each.
    backoff_ms: int = 200


@dataclass(frozen=True, slots=True)
class AdminUrl:
    """Scheme and host:port of a broker's web service."""

    scheme: Literal["http", "https"]
    netloc: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"


def admin_urls(settings: PulsarSettings) -> tuple[AdminUrl, ...]:
    """The configured addresses. Raises SettingsError with all complaints about them and the
    cluster's name.
    """
    complaints = (
        []
        if settings.cluster
        else [
            "pulsar.cluster: is empty; name the Pulsar cluster, as `pulsar-admin clusters "
            "list` does"
        ]
    )
    texts = [text.strip() for text in settings.admin_urls.split(",") if text.strip()]
    if not texts:
        complaints.append(
            "pulsar.admin_urls: is empty; name the web service of a broker, for example "
            "http://broker-1:8080"
        )
    found = [url for text in texts if isinstance(url := _parse(text), AdminUrl)]
    complaints += [complaint for text in texts if isinstance(complaint := _parse(text), str)]
    if len({url.scheme for url in found}) > 1:
        complaints.append(
            "pulsar.admin_urls: mixes http and https; a protected token must not be sent over "
            "http: use https"
        )
    raise_complaints(complaints)
    return tuple(dict.fromkeys(found))


def check_brackets(broker: str) -> None:
    """Raises Refused for an IPv6 address that is not in brackets: no URL may contain it."""
    host = broker.rpartition(":")[0]
    if ":" in host and not host.startswith("["):
        raise Refused(
            f"{broker} is an IPv6 address without brackets, so it cannot be called; set "
            f"advertisedAddress=[{host}] in the broker.conf of this broker, and restart it."
        )


def base_of(broker: str, urls: tuple[AdminUrl, ...], settings: PulsarSettings) -> AdminUrl:
    """Address of a broker's own web service."""
    scheme = urls[0].scheme
    if scheme == "https" and settings.tls_port:
        return AdminUrl(scheme, f"{broker.rpartition(':')[0]}:{settings.tls_port}")
    return AdminUrl(scheme, broker)


def _parse(text: str) -> AdminUrl | str:
    """The address, or a complaint that does not repeat a possible password."""
    wrong = (
        "pulsar.admin_urls: {} is not the address of a web service; write http://host:port or "
        "https://host:port"
    )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return f"{wrong.format('an entry')}, with an IPv6 host in brackets, as http://[::1]:8080"
    if parts.username is not None or parts.password is not None:
        return (
            "pulsar.admin_urls: an address contains a user or password; put a token into a file "
            "and name it as pulsar.token_file"
        )
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.path.strip("/")
        or parts.query
        or parts.fragment
    ):
        return wrong.format(text)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    secure = parts.scheme == "https"
    return AdminUrl("https" if secure else "http", f"{host}:{port or (443 if secure else 80)}")


def token_header(settings: PulsarSettings) -> Mapping[str, str]:
    """The Authorization header with the token; empty without one. Raises SettingsError."""
    if not settings.token_file:
        return {}
    token = read_secret(settings.token_file, "pulsar.token_file", is_token=True).reveal()
    return {"Authorization": f"Bearer {token.decode('ascii')}"}


def tls_context(settings: PulsarSettings, *, secure: bool | None = None) -> ssl.SSLContext:
    """The trusted authorities and our own certificate. Raises SettingsError.

    `secure`: whether the connection uses TLS; None = as `pulsar.admin_urls` say.
    """
    wanted = admin_urls(settings)[0].scheme == "https" if secure is None else secure
    if not (settings.tls_ca_file or settings.tls_cert_file or wanted):
        # A plain connection: trusts no certificate, because loading the system's authorities takes
        # longer than a call.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca_file or None)
    except (OSError, ValueError) as error:
        raise SettingsError(
            [
                f"pulsar.tls_ca_file: {settings.tls_ca_file} contains no certificates "
                f"({message_of(error)})"
            ]
        ) from error
    if settings.tls_cert_file:
        try:
            context.load_cert_chain(
                settings.tls_cert_file, settings.tls_key_file or None, password=_no_password
            )
        except (OSError, ValueError) as error:
            raise SettingsError(
                [
                    "pulsar.tls_cert_file: it and pulsar.tls_key_file are no certificate and "
                    f"its key ({message_of(error)})"
                ]
            ) from error
    return context


def _no_password() -> str:
    """Refuses an encrypted key; otherwise OpenSSL would prompt for its password."""
    raise ValueError("the key is encrypted")


def message_of(error: Exception) -> str:
    """The error's text, or the name of its type where it has none."""
    return str(error) or type(error).__name__


class KnownBrokers:
    """Addresses of a cluster's brokers. Thread-safe."""

    def __init__(
        self, settings: PulsarSettings, log: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises SettingsError. `log`: gets the reason when a listed broker has to help."""
        self._settings, self._log = settings, log
        self._urls = self._order = admin_urls(settings)
        self._changing = threading.Lock()
        #: True once a broker has answered in place of the configured ones, which is logged once.
        self._has_helped = False

    def bases(self) -> tuple[AdminUrl, ...]:
        """Addresses in the order to ask them; those that failed last come last."""
        left_out = frozenset([*filter(self.is_fallback, self._order)][MOST_FALLBACKS:])
        return tuple(base for base in self._order if base not in left_out)

    def is_fallback(self, base: AdminUrl) -> bool:
        """True if the address comes from the cluster's list and not from the settings."""
        return base not in self._urls

    def helped(self, base: AdminUrl, failed: Exception | None) -> None:
        """Records that a broker answered after another failed; reports the first time that an
        address of the cluster's list had to help.
        """
        if self._has_helped or failed is None or not self.is_fallback(base):
            return
        self._has_helped = True
        self._log(
            f"{failed} Until it does, {base} and other brokers of the cluster's list are asked."
        )

    def failed(self, base: AdminUrl) -> None:
        """Moves an address to the end of the order."""
        with self._changing:
            if base in self._order:
                self._order = (*(one for one in self._order if one != base), base)

    def learn(self, brokers: Iterable[str]) -> None:
        """Takes the cluster's list. Ignores an empty one: the broker that sent it is missing in
        it.
        """
        listed = dict.fromkeys(
            base_of(name, self._urls, self._settings) for name in sorted(brokers)
        )
        if not listed:
            return
        with self._changing:
            kept = [base for base in self._order if base in listed or base in self._urls]
            self._order = tuple(dict.fromkeys([*kept, *listed]))
