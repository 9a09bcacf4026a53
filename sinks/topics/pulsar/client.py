"""The one place where a client of Pulsar's binary protocol is opened, from the settings that REST uses too, and its errors become ours."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sinks.pulsar_api.http import tls_context, token_header
from sinks.pulsar_api.settings import PulsarSettings
from sinks.pulsar_api.tls_errors import speaks_tls, tls_obstacle
from strategies.errors import PublishRejected, PublishTimeout, SettingsError, SinkError

if TYPE_CHECKING:
    import pulsar

SECURE = "pulsar+ssl"
_LOGIN = "Pulsar does not accept the login; check the token in pulsar.token_file and the rights of its role"
#: Name of the client's exception → what we raise and say.
_MEANINGS: dict[str, tuple[type[SinkError], str]] = {
    "AuthenticationError": (SinkError, _LOGIN),
    "AuthorizationError": (SinkError, _LOGIN),
    "ErrorGettingAuthenticationData": (SinkError, _LOGIN),
    "TopicNotFound": (SinkError, "there is no such topic or namespace; make it (rebalancer topics create), or correct its name"),
    "InvalidTopicName": (SinkError, "the topic's name is none that Pulsar takes; correct it"),
    "MessageTooBig": (PublishRejected, "the record is larger than the broker allows; raise its maxMessageSize"),
    "ConsumerBusy": (SinkError, "another process reads it with the same subscription; stop that one first"),
    "TopicTerminated": (PublishRejected, "the topic was terminated, nothing can be written to it; use another one"),
    "ProducerBlockedQuotaExceededError": (PublishTimeout, "the namespace's backlog quota is used up; raise it, or consume what waits"),
    "ProducerBlockedQuotaExceededException": (PublishTimeout, "the namespace's backlog quota is used up; raise it, or consume what waits"),
}
#: A client that is not let in tries again until its time is up, and does not say why.
_SILENT = (
    "Pulsar did not do it in time; check that the brokers run and the one that serves the topic answers, check the token in "
    "pulsar.token_file, then look into the broker's log"
)


_TLS_HERE = "speaks TLS at this port; write pulsar+ssl:// in the topic or pulsar.service_url, or name the port without TLS"
_CONTENT_S = 0.5


def open_client(service_url: str, settings: PulsarSettings) -> pulsar.Client:
    """A client that connects when it is first used; close it. Its own log goes nowhere: `pulsar_errors` says what went wrong.

    `service_url`: pulsar://host:port or pulsar+ssl://host:port, several hosts with commas. Raises SettingsError.
    """
    import pulsar

    secure = service_url.startswith(f"{SECURE}:")
    if secure:
        tls_context(settings, secure=True)  # complains about files that cannot be read, which the client would only log
    read = token_supplier(settings)
    return pulsar.Client(
        service_url,
        authentication=pulsar.AuthenticationToken(read) if read() else None,
        operation_timeout_seconds=max(1, settings.deadline_ms // 1000),
        connection_timeout_ms=settings.connect_timeout_ms,
        tls_trust_certs_file_path=(settings.tls_ca_file or _authorities()) if secure else None,
        tls_allow_insecure_connection=False,
        tls_validate_hostname=secure,
        tls_certificate_file_path=settings.tls_cert_file or None,
        tls_private_key_file_path=settings.tls_key_file or settings.tls_cert_file or None,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )


@contextmanager
def pulsar_errors(subject: str, service_url: str, settings: PulsarSettings) -> Iterator[None]:
    """Raises SinkError, PublishTimeout or PublishRejected for what the client raises inside; `subject` begins the sentence."""
    import pulsar

    try:
        yield
    except pulsar.PulsarException as error:
        name = type(error).__name__
        kind, meaning = _MEANINGS.get(name, (PublishTimeout, ""))
        meaning = meaning or _obstacle(service_url, settings) or _SILENT
        raise kind(f"{subject}: {meaning} (the client says {name}).") from None


def _obstacle(service_url: str, settings: PulsarSettings) -> str:
    """Why nobody can be reached, found by connecting once more ourselves: the client tells it to its log only. Empty if somebody can."""
    found = ""
    secure = service_url.startswith(f"{SECURE}:")
    for server in urlsplit(service_url).netloc.split(","):
        host, _, port = server.rpartition(":")
        try:
            obstacle = _greet(host.strip("[]"), int(port), settings, secure)
        except (OSError, ValueError) as error:
            found = found or f"{server} does not accept connections ({error}); start the broker, or correct the address"
            continue
        if not obstacle:
            return ""
        found = f"{server} {obstacle}"
    return found


def _greet(host: str, port: int, settings: PulsarSettings, secure: bool) -> str:
    """What is wrong with TLS there; empty if nothing is. Raises OSError when nobody accepts the connection."""
    timeout_s = settings.connect_timeout_ms / 1000
    if not secure:
        socket.create_connection((host, port), timeout_s).close()
        return _TLS_HERE if speaks_tls(host, port, timeout_s) else ""
    with socket.create_connection((host, port), timeout_s) as plain:
        try:
            with tls_context(settings, secure=True).wrap_socket(plain, server_hostname=host) as talking:
                return _farewell(talking, settings)
        except ssl.SSLError as error:
            return tls_obstacle(error, settings)
        except OSError as error:
            return f"did not finish the TLS handshake ({error}); check that this port is one with TLS (brokerServicePortTls)"


def _farewell(talking: ssl.SSLSocket, settings: PulsarSettings) -> str:
    """With TLS 1.3 a server says after the handshake that it wants a certificate of ours; a broker that is content says nothing."""
    talking.settimeout(_CONTENT_S)
    try:
        talking.recv(1)
    except TimeoutError:
        return ""
    except ssl.SSLError as error:
        return tls_obstacle(error, settings)
    return ""


def token_supplier(settings: PulsarSettings) -> Callable[[], str]:
    """Reads the token anew for every connection, so that it can be replaced while the program runs; empty without one.

    While its file cannot be read, the last token counts: the client's threads take no exceptions. Raises SettingsError at once, not later.
    """
    newest = [_token(settings)]

    def read() -> str:
        with suppress(SettingsError):
            newest[0] = _token(settings)
        return newest[0]

    return read


def _token(settings: PulsarSettings) -> str:
    return token_header(settings).get("Authorization", "").removeprefix("Bearer ")


def _authorities() -> str | None:
    """Those of this machine; the client brings none of its own."""
    return ssl.get_default_verify_paths().cafile
