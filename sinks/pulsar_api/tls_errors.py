"""Explains a failed TLS connection to a broker, and names the setting to change."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings

_OTHER_NAME = "use a host name that its certificate contains"
#: X509_V_ERR_… → the next step.
_UNTRUSTED = {
    9: "compare the clocks of the broker and this machine",
    10: "renew the broker's certificate, or correct the clock of this machine",
    62: _OTHER_NAME,
    63: _OTHER_NAME,
    64: _OTHER_NAME,
}
#: OpenSSL's messages for bytes that are not TLS.
_PLAIN = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "PACKET_LENGTH_TOO_LONG",
)
#: A missing certificate of ours, or one that the broker does not accept.
_OWN = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_ACCESS_DENIED",
)


def tls_obstacle(error: BaseException, settings: PulsarSettings) -> str:
    """The cause and the next step, as the end of a sentence that begins with the server; empty if
    the error is not about TLS.
    """
    found = ssl_error_in(error)
    if found is None:
        return ""
    if isinstance(found, ssl.SSLCertVerificationError):
        add = "add the certificate of its authority to pulsar.tls_ca_file"
        step = _UNTRUSTED.get(found.verify_code, add)
        shown = found.verify_message or found
        return f"presents a TLS certificate that is not trusted ({shown}); {step}"
    reason = getattr(found, "reason", None) or str(found)
    if any(word in reason for word in _PLAIN):
        return (
            f"does not speak TLS at this port ({reason}); name the port with TLS (the "
            "brokers' webServicePortTls, brokerServicePortTls), "
            "or write http:// (pulsar:// for topics) if they have none"
        )
    if any(word in reason for word in _OWN):
        return _own_certificate(reason, settings)
    return (
        f"ended the TLS handshake ({reason}); check that this port is one with TLS "
        "(webServicePortTls, brokerServicePortTls), then check "
        "the broker's log"
    )


def tls_complaint(
    plain: socket.socket, host: str, context: ssl.SSLContext, settings: PulsarSettings
) -> str:
    """What a server objects to in a TLS handshake over this connection, as `tls_obstacle` says it;
    empty if it has no objection. Raises OSError if there is no answer.
    """
    try:
        with context.wrap_socket(plain, server_hostname=host) as connection:
            connection.settimeout(0.5)
            with suppress(TimeoutError):
                # With TLS 1.3, a server refuses our certificate after the handshake.
                connection.recv(1)
    except ssl.SSLError as error:
        return tls_obstacle(error, settings)
    return ""


def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """True if a server answers a TLS handshake with any certificate. Sends only the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),
        socket.create_connection((host, port), timeout_s) as plain,
        context.wrap_socket(plain),
    ):
        return True
    return False


def _own_certificate(reason: str, settings: PulsarSettings) -> str:
    if settings.tls_cert_file:
        return (
            f"does not accept our certificate ({reason}); have pulsar.tls_cert_file signed by "
            "an authority that the brokers trust "
            "(their tlsTrustCertsFilePath), and check that it has not expired"
        )
    return (
        f"requires a client certificate ({reason}); name one that the brokers trust in "
        "pulsar.tls_cert_file, and its key in tls_key_file"
    )


def ssl_error_in(error: BaseException) -> ssl.SSLError | None:
    """The error about TLS among the causes of another one."""
    return next((one for one in causes(error) if isinstance(one, ssl.SSLError)), None)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, the cause of that, and so on."""
    # An exception that is raised again in the handler of its own cause is in its chain twice.
    seen = set[int]()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
