"""Reads a broker's clock from the Date header of an answer; sends no token."""

from __future__ import annotations

import ssl
import time
from contextlib import closing
from email.utils import parsedate_to_datetime

from sinks.pulsar_api.http_exchange import HttpConnections, NotConnected, TooLarge
from sinks.pulsar_api.settings import PulsarSettings, admin_urls, base_of, tls_context

_LARGEST = 2**20


def broker_time_s(broker: str, settings: PulsarSettings) -> int | None:
    """The broker's time in seconds since the epoch; None without a Date header. Raises
    SettingsError.
    """
    import httpx

    url = base_of(broker, admin_urls(settings), settings)
    until = time.monotonic() + settings.deadline_ms / 1000
    connect_s = settings.connect_timeout_ms / 1000
    try:
        with closing(HttpConnections(tls_context(settings), 0, connect_s)) as connections:
            asked = connections.exchange(
                "GET", f"{url}/status.html", headers={}, body=None, until=until, most=_LARGEST
            )
        date = asked.headers.get("date")
        return None if date is None else int(parsedate_to_datetime(date).timestamp())
    except (
        NotConnected,
        TimeoutError,
        TooLarge,
        httpx.TransportError,
        httpx.InvalidURL,
        ssl.SSLError,
        ValueError,
    ):
        return None
