"""What time it is at a broker, by the Date header of its answer; no token is shown for that."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from sinks.pulsar_http import tls_context
from sinks.pulsar_settings import PulsarSettings, admin_urls, base_of


def broker_time_s(broker: str, settings: PulsarSettings) -> int | None:
    """Seconds since the epoch, by the broker's clock; None when it does not tell. Raises SettingsError."""
    import httpx

    url = base_of(broker, admin_urls(settings), settings)
    try:
        with httpx.Client(verify=tls_context(settings), trust_env=False, timeout=settings.deadline_ms / 1000) as client:
            told = client.get(f"{url}/status.html").headers.get("date")
        return None if told is None else int(parsedate_to_datetime(told).timestamp())
    except (httpx.HTTPError, ValueError):
        return None
