"""Settings of the log lines of long-running commands, and of the live page: where it listens, and
who may see it.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Literal

from sinks.metrics.settings import ListenAddress, address_of
from strategies.errors import SettingsError, raise_complaints
from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Format of the output of `run`, `collect`, `execute` and `notify`."""

    format: Annotated[
        Literal["text", "json"],
        Setting(
            "Log format of run, collect, execute and notify: text with a UTC timestamp, or one "
            "JSON object per line"
        ),
    ] = "text"


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The HTTP server of `rebalancer serve`. Lists are texts with commas between their entries."""

    listen: Annotated[
        str,
        Setting(
            "Address of the live page, as host:port (0.0.0.0:8085 for all addresses, which needs "
            "token_file; port 0 = any free port)"
        ),
    ] = "127.0.0.1:8085"
    token_file: Annotated[
        str,
        Setting(
            "File with one line `role:name:token` per person; role: viewer or operator; empty = "
            "each user of this machine is a viewer"
        ),
    ] = ""
    hosts: Annotated[
        str,
        Setting(
            "Names under which browsers may reach the page, besides those of this machine; empty = "
            "all if token_file is set"
        ),
    ] = ""
    tls_cert: Annotated[
        str, Setting("File with the certificate chain of the page in PEM form; empty = no TLS")
    ] = ""
    tls_key: Annotated[str, Setting("File with the private key of tls_cert in PEM form")] = ""


def serve_address(settings: ServeSettings) -> ListenAddress:
    """The address to listen on. Raises SettingsError with all errors in the table."""
    complaints: list[str] = []
    if bool(settings.tls_cert) != bool(settings.tls_key):
        missing = "serve.tls_key" if settings.tls_cert else "serve.tls_cert"
        complaints.append(f"{missing} is empty: TLS needs a certificate and its key; name both")
    try:
        address = address_of(settings.listen, "serve.listen", 8085)
    except SettingsError as error:
        raise SettingsError([*error.complaints, *complaints]) from error
    if not is_loopback(address.host) and not settings.token_file:
        complaints.append(
            f"serve.listen: {settings.listen} is reachable from other machines, so any user there "
            "could read the page: set serve.token_file, or listen on 127.0.0.1:8085"
        )
    raise_complaints(complaints)
    return address


def is_loopback(host: str) -> bool:
    """True if only this machine reaches the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
