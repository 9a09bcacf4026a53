"""Opens clients of Pulsar's binary protocol, from the same settings as the admin client, and
converts their errors to ours.
"""

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings, tls_context, token_header
from sinks.pulsar_api.http_exchange import speaks_tls, tls_complaint
from strategies.errors import PublishRejected, PublishTimeout, SettingsError, SinkError

if TYPE_CHECKING:
    import pulsar

SECURE = "pulsar+ssl"
_LOGIN = (
    "authentication failed: check the token in pulsar.token_file and the permissions of its role"
)
#: Name of the client's exception → our error and its text.
_MEANINGS: dict[str, tuple[type[SinkError], str]] = {
    "AuthenticationError": (SinkError, _LOGIN),
    "AuthorizationError": (SinkError, _LOGIN),
    "ErrorGettingAuthenticationData": (SinkError, _LOGIN),
    "TopicNotFound": (
        SinkError,
        "the topic or its namespace does not exist; create it (rebalancer topics create), or "
        "correct its name",
    ),
    "InvalidTopicName": (SinkError, "Pulsar does not accept the topic's name; correct it"),
    "MessageTooBig": (
        PublishRejected,
        "the record is larger than the broker allows; raise its maxMessageSize",
    ),
    "ConsumerBusy": (SinkError, "another process uses the same subscription; stop it first"),
    "TopicTerminated": (
        PublishRejected,
        "the topic is terminated and accepts no messages; use another one",
    ),
    "ProducerBlockedQuotaExceededError": (
        PublishTimeout,
        "the namespace's backlog quota is exceeded; raise it, or consume the backlog",
    ),
    "ProducerBlockedQuotaExceededException": (
        PublishTimeout,
        "the namespace's backlog quota is exceeded; raise it, or consume the backlog",
    ),
}
#: After a refused login the client retries until its timeout, without giving the reason.
_SILENT = (
    "timeout; check that the brokers run and the one that serves the topic answers, check the "
    "token in "
    "pulsar.token_file, then look into the broker's log"
)


def open_client(service_url: str, settings: PulsarSettings) -> "pulsar.Client":
    """A client that connects on first use; close it. Its log is discarded: `pulsar_errors` reports
    what went wrong.

    `service_url`: pulsar://host:port or pulsar+ssl://host:port, several hosts separated by commas.
    Raises SettingsError.
    """
    import pulsar

    secure = service_url.startswith(f"{SECURE}:")
    if secure:
        tls_context(
            settings, secure=True
        )  # raises for unreadable files, which the client would only log
    read = token_supplier(settings)
    return pulsar.Client(
        service_url,
        authentication=pulsar.AuthenticationToken(read) if read() else None,
        operation_timeout_seconds=max(1, settings.deadline_ms // 1000),
        connection_timeout_ms=settings.connect_timeout_ms,
        tls_trust_certs_file_path=(
            # The client includes no authorities.
            (settings.tls_ca_file or ssl.get_default_verify_paths().cafile) if secure else None
        ),
        tls_allow_insecure_connection=False,
        tls_validate_hostname=secure,
        tls_certificate_file_path=settings.tls_cert_file or None,
        tls_private_key_file_path=settings.tls_key_file or settings.tls_cert_file or None,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )


@contextmanager
def pulsar_errors(subject: str, service_url: str, settings: PulsarSettings) -> Iterator[None]:
    """Raises SinkError, PublishTimeout or PublishRejected for errors of the client in the block;
    `subject` begins the text.
    """
    import pulsar

    try:
        yield
    except pulsar.PulsarException as error:
        name = type(error).__name__
        kind, meaning = _MEANINGS.get(name, (PublishTimeout, ""))
        meaning = meaning or _obstacle(service_url, settings) or _SILENT
        raise kind(f"{subject}: {meaning} (the client says {name}).") from None


def quietly(end: Callable[[], object]) -> None:
    """Ends what a client has opened, whether its servers answer or not."""
    import pulsar

    with suppress(pulsar.PulsarException):
        end()


def _obstacle(service_url: str, settings: PulsarSettings) -> str:
    """Why the brokers cannot be reached, found by connecting again: the client only logs the
    reason. Empty if one can be reached.
    """
    found = ""
    secure = service_url.startswith(f"{SECURE}:")
    for server in urlsplit(service_url).netloc.split(","):
        host, _, port = server.rpartition(":")
        try:
            obstacle = _tls_problem(host.strip("[]"), int(port), settings, secure)
        except (OSError, ValueError) as error:
            found = (
                found
                or f"{server} does not accept connections ({error}); start the broker, or "
                "correct the address"
            )
            continue
        if not obstacle:
            return ""
        found = f"{server} {obstacle}"
    return found


def _tls_problem(host: str, port: int, settings: PulsarSettings, secure: bool) -> str:
    """What is wrong with TLS at this address; empty if nothing. Raises OSError if the connection is
    refused.
    """
    timeout_s = settings.connect_timeout_ms / 1000
    if not secure:
        socket.create_connection((host, port), timeout_s).close()
        return (
            "speaks TLS at this port; write pulsar+ssl:// in the topic or pulsar.service_url, or "
            "name the port without TLS"
            if speaks_tls(host, port, timeout_s)
            else ""
        )
    with socket.create_connection((host, port), timeout_s) as plain:
        try:
            return tls_complaint(plain, host, tls_context(settings, secure=True), settings)
        except OSError as error:
            return (
                f"did not finish the TLS handshake ({error}); check that this port is one with "
                "TLS (brokerServicePortTls)"
            )


def token_supplier(settings: PulsarSettings) -> Callable[[], str]:
    """Reads the token for each connection, so that it can be replaced while the program runs; empty
    without token.

    While the file cannot be read, the last token is used: the client's threads accept no
    exceptions. Raises SettingsError at once only.
    """
    newest = [_token(settings)]

    def read() -> str:
        with suppress(SettingsError):
            newest[0] = _token(settings)
        return newest[0]

    return read


def _token(settings: PulsarSettings) -> str:
    return token_header(settings).get("Authorization", "").removeprefix("Bearer ")
