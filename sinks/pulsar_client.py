"""The one place where a client of Pulsar's binary protocol is opened, from the settings that REST uses too, and its errors become ours."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sinks.pulsar_http import tls_context, token_header
from sinks.pulsar_settings import PulsarSettings
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
_SILENT = "Pulsar did not do it in time; check the token in pulsar.token_file, then look into the broker's log"
_TRUST = "no trust: check pulsar.tls_ca_file, and that the broker's certificate is for this host"


def open_client(service_url: str, settings: PulsarSettings) -> pulsar.Client:
    """A client that connects when it is first used; close it. Its own log goes nowhere: `pulsar_errors` says what went wrong.

    `service_url`: pulsar://host:port or pulsar+ssl://host:port, several hosts with commas. Raises SettingsError.
    """
    import pulsar

    secure = service_url.startswith(f"{SECURE}:")
    if secure:
        tls_context(settings)  # complains about files that cannot be read, which the client would only log
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
    for server in urlsplit(service_url).netloc.split(","):
        host, _, port = server.rpartition(":")
        try:
            _greet(host.strip("[]"), int(port), settings, service_url.startswith(f"{SECURE}:"))
        except ssl.SSLError as error:
            found = f"{server}: {_TRUST} ({error.reason or error})"
        except (OSError, ValueError) as error:
            found = found or f"{server} does not accept connections ({error}); start the broker, or correct the address"
        else:
            return ""
    return found


def _greet(host: str, port: int, settings: PulsarSettings, secure: bool) -> None:
    with socket.create_connection((host, port), settings.connect_timeout_ms / 1000) as plain:
        if secure:
            with tls_context(settings).wrap_socket(plain, server_hostname=host):
                pass


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
