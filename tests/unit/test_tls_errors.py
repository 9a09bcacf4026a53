"""The cause of a failed connection is found in any chain of exceptions."""

import ssl

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.pulsar_api.http_exchange import tls_obstacle


def test_a_chain_of_causes_that_is_a_circle_has_an_end() -> None:
    first, second = OSError("reset"), ConnectionError("closed")
    first.__cause__, second.__cause__ = second, first
    assert tls_obstacle(first, PulsarSettings()) == ""


def test_the_error_of_tls_is_found_behind_others() -> None:
    outer = ConnectionError("closed")
    outer.__context__ = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
    assert "does not speak TLS at this port" in tls_obstacle(outer, PulsarSettings())
