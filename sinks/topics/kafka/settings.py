"""Settings for Kafka: given once, with secrets from files, and translated for the Python client and
the Java client. And where a new reader starts, on Kafka and Pulsar.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from sinks.secret_file import Secret, read_pem, read_secret
from strategies.errors import SettingsError, raise_complaints
from strategies.settings import Setting

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
#: Limit of our clients; the actual limit is the broker's (message.max.bytes).
LARGEST_REQUEST_BYTES = 64 * 2**20
#: Timeout of the first connection.
_BOOTSTRAP_MS = 10_000
#: Longest backoff between connection attempts, so that a broker that is back is noticed soon.
_LONGEST_PAUSE_MS = 5_000


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Settings of all kafka:// topics; the servers are in the topics' URIs."""

    security_protocol: Annotated[
        SecurityProtocol,
        Setting("Security protocol of the broker's listener (Kafka: security.protocol)"),
    ] = "PLAINTEXT"
    mechanism: Annotated[
        Mechanism,
        Setting("Authentication if security_protocol begins with SASL (Kafka: sasl.mechanism)"),
    ] = "SCRAM-SHA-512"
    username: Annotated[str, Setting("User name for SASL")] = ""
    password_file: Annotated[str, Setting("File with the password for SASL")] = ""
    ca_file: Annotated[
        str, Setting("PEM file with the trusted certificates; empty = those of the system")
    ] = ""
    cert_file: Annotated[
        str, Setting("PEM file with our own certificate, if the broker requires one")
    ] = ""
    key_file: Annotated[
        str, Setting("PEM file with the key of our own certificate (PKCS 8, not encrypted)")
    ] = ""
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
    timeout_ms: Annotated[
        int, Setting("Timeout of one request to a server", "ms", ge=1_000, le=600_000)
    ] = 30_000
    outage_ms: Annotated[
        int,
        Setting(
            "Longest outage of servers that have answered before; after it a process gives up",
            "ms",
            ge=0,
            le=86_400_000,
        ),
    ] = 600_000


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """Checked settings with the content of the secret files; neither appears when printed.

    `password`: None without SASL.
    """

    settings: KafkaSettings
    password: Secret | None
    certificate: Secret | None
    key: Secret | None
    trusted: Secret | None

    def for_python(self) -> dict[str, Any]:
        """Keyword arguments for the clients of kafka-python."""
        settings = self.settings
        found: dict[str, Any] = {
            "security_protocol": settings.security_protocol,
            "request_timeout_ms": settings.timeout_ms,
            "bootstrap_timeout_ms": min(settings.timeout_ms, _BOOTSTRAP_MS),
            "reconnect_backoff_max_ms": _LONGEST_PAUSE_MS,
        }
        if self.password is not None:
            found |= {
                "sasl_mechanism": settings.mechanism,
                "sasl_plain_username": settings.username,
                "sasl_plain_password": self.password.reveal().decode(),
            }
        files = {
            "ssl_cafile": settings.ca_file,
            "ssl_certfile": settings.cert_file,
            "ssl_keyfile": settings.key_file,
        }
        return found | {
            key: file
            for key, file in files.items()
            if file and settings.security_protocol.endswith("SSL")
        }

    def for_java(self) -> Mapping[str, str]:
        """Properties for Kafka's Java client. They contain secrets: `sasl.jaas.config` and
        `ssl.keystore.key`.
        """
        timeout_ms = str(self.settings.timeout_ms)
        found = {
            "security.protocol": self.settings.security_protocol,
            "request.timeout.ms": timeout_ms,
            "default.api.timeout.ms": timeout_ms,
        }
        if self.password is not None:
            found |= {
                "sasl.mechanism": self.settings.mechanism,
                "sasl.jaas.config": _jaas(self.settings, self.password),
            }
        if self.trusted is not None:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self.trusted.reveal().decode(),
            }
        if self.certificate is not None and self.key is not None:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.certificate.reveal().decode(),
                "ssl.keystore.key": self.key.reveal().decode(),
            }
        return found


def kafka_access(settings: KafkaSettings) -> KafkaAccess:
    """Checks the settings and reads their files. Raises SettingsError with all complaints."""
    complaints: list[str] = []
    sasl, ssl = (
        settings.security_protocol.startswith("SASL"),
        settings.security_protocol.endswith("SSL"),
    )
    if sasl and not settings.username:
        complaints.append(f"kafka.username: {settings.security_protocol} needs a user name; set it")
    if sasl and not settings.password_file:
        complaints.append(
            f"kafka.password_file: {settings.security_protocol} needs a password; name a file "
            "that contains it"
        )
    if bool(settings.cert_file) != bool(settings.key_file):
        missing = "kafka.key_file" if settings.cert_file else "kafka.cert_file"
        complaints.append(
            f"{missing}: a certificate and its key are used together; name both files, or neither"
        )
    certificate = partial(read_pem, holds="CERTIFICATE")
    read = [
        _optional(
            settings.password_file if sasl else "", "kafka.password_file", complaints, read_secret
        ),
        _optional(settings.cert_file if ssl else "", "kafka.cert_file", complaints, certificate),
        _optional(
            settings.key_file if ssl else "",
            "kafka.key_file",
            complaints,
            partial(read_pem, holds="PRIVATE KEY"),
        ),
        _optional(settings.ca_file if ssl else "", "kafka.ca_file", complaints, certificate),
    ]
    complaints += start_complaints("kafka.start", settings.start)
    raise_complaints(complaints)
    return KafkaAccess(settings, *read)


def _optional(
    path: str, setting: str, complaints: list[str], read: Callable[[str, str], Secret]
) -> Secret | None:
    try:
        return read(path, setting) if path else None
    except SettingsError as error:
        complaints += error.complaints
        return None


def _jaas(settings: KafkaSettings, password: Secret) -> str:
    login = "plain.Plain" if settings.mechanism == "PLAIN" else "scram.Scram"
    user, secret = _quoted(settings.username), _quoted(password.reveal().decode())
    module = f"org.apache.kafka.common.security.{login}LoginModule"
    return f"{module} required username={user} password={secret};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def start_ms(start: str) -> int | None:
    """The time in ms since 1970; None for `earliest` and `latest`. Raises ValueError,
    OverflowError.
    """
    if start in ("earliest", "latest"):
        return None
    if start.isdecimal():
        return int(start)
    time = datetime.fromisoformat(start)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def start_complaints(setting: str, start: str) -> list[str]:
    """Complaints about a start position; empty if it is valid."""
    try:
        start_ms(start)
    except (ValueError, OverflowError):
        return [
            f"{setting}: {start!r} is neither earliest nor latest nor a time such as "
            "2026-01-31T12:00:00Z"
        ]
    return []
