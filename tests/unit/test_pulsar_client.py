"""What the one who opens a client of the binary protocol says when nobody answers, or when its
settings cannot be used.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sinks.pulsar_api.access import PulsarSettings
from sinks.topics.pulsar.client import open_client, token_supplier
from strategies.errors import SettingsError
from tests.unit.client_complaint import client_says

IMPATIENT = PulsarSettings("c", "http://127.0.0.1:1", connect_timeout_ms=500)


@pytest.fixture
def silent() -> Iterator[str]:
    """Somebody who takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def why(service_url: str) -> str:
    return client_says(service_url, IMPATIENT)


@pytest.mark.heavy
def test_a_broker_that_is_not_there_is_named() -> None:
    assert why("pulsar://127.0.0.1:1").startswith(
        "the load topic: 127.0.0.1:1 does not accept connections"
    )


@pytest.mark.heavy
def test_whoever_does_not_speak_makes_us_doubt_the_token(silent: str) -> None:
    assert "check the token in pulsar.token_file" in why(f"pulsar://{silent}")


@pytest.mark.parametrize("setting", ["token_file", "tls_ca_file"])
def test_files_that_cannot_be_read_are_complaints(setting: str, tmp_path: Path) -> None:
    settings = PulsarSettings("c", "http://a:8080", **{setting: str(tmp_path / "nowhere")})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=rf"^pulsar\.{setting}: "):
        open_client("pulsar+ssl://a:6651", settings)


def test_a_token_is_read_anew_and_the_last_one_counts_while_its_file_is_gone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "token"
    file.write_text("one", "utf-8")
    read = token_supplier(PulsarSettings("c", "http://a:8080", str(file)))
    file.write_text("two", "utf-8")
    assert read() == "two"
    file.unlink()
    assert read() == "two"
    with pytest.raises(SettingsError, match=r"pulsar\.token_file"):
        token_supplier(PulsarSettings("c", "http://a:8080", str(file)))
