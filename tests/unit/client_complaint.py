"""What a client of Pulsar's binary protocol says when it cannot open a producer."""

from contextlib import closing
from dataclasses import replace

import pytest

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.pulsar.client import open_client, pulsar_errors
from strategies.errors import PublishTimeout


def client_says(url: str, given: PulsarSettings) -> str:
    """Its complaint after a second."""
    hurried = replace(given, deadline_ms=1_000)
    with (
        closing(open_client(url, hurried)) as client,
        pytest.raises(PublishTimeout) as caught,
        pulsar_errors("the load topic", url, hurried),
    ):
        client.create_producer("persistent://t/ns/topic")
    return str(caught.value)
