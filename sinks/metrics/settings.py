"""Settings of the metrics: the address of the HTTP server, and what its labels contain."""

import re
import socket
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from strategies.errors import SettingsError, SinkError
from strategies.settings import Setting

_HOST_AND_PORT = re.compile(
    r"(?:\[(?P<ip6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})"
)
_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The HTTP server of `run`, `collect`, `execute` and `notify`, without authentication and
    TLS.
    """

    listen: Annotated[
        str,
        Setting(
            "Address of the metrics and probes, as host:port (127.0.0.1:9090, 0.0.0.0:9090 for "
            "all addresses, [::1]:9090; port 0 = any free port); empty = off"
        ),
    ] = ""
    per_broker: Annotated[
        bool, Setting("Whether run reports the usage of each broker, with the broker as label")
    ] = False


#: No server.
METRICS_OFF = MetricsSettings()


class ListenAddress(NamedTuple):
    """Where the server listens. Port 0: the operating system selects a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen_address(settings: MetricsSettings) -> ListenAddress | None:
    """The address to listen on; None if metrics are off. Raises SettingsError."""
    if not settings.listen:
        return None
    return address_of(settings.listen, "metrics.listen", 9090)


def address_of(text: str, setting: str, example: int) -> ListenAddress:
    """The address in a setting. `example`: a port for the message. Raises SettingsError."""
    found = _HOST_AND_PORT.fullmatch(text)
    if found is None or int(found["port"]) > _LARGEST_PORT:
        raise SettingsError(
            [
                f"{setting}: {text!r} is not host:port with a port up to {_LARGEST_PORT}; write "
                f"127.0.0.1:{example} for this machine only, or 0.0.0.0:{example} for all addresses"
            ]
        )
    return ListenAddress(found["ip6"] or found["host"], int(found["port"]))


def listening_socket(
    address: ListenAddress, setting: str, otherwise: str = "", *, both: bool = False
) -> socket.socket:
    """A socket that listens at the address of a setting. Raises SinkError if it cannot be used;
    `otherwise`: what else the message proposes; `both`: an IPv6 address takes IPv4 too.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = both and family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(place, family=family, backlog=256, dualstack_ipv6=both)
    except (OSError, UnicodeError, OverflowError) as error:
        reason = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        raise SinkError(
            f"{setting}: {address} cannot be used ({reason}); name a free port and an address of "
            f"this machine{otherwise}"
        ) from error
