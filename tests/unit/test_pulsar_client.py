"""What is said when Pulsar's client cannot connect, and message ids as numbers."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.pulsar.client import open_client, token_supplier
from sinks.topics.pulsar.partition import MessageId, id_at
from strategies.errors import SettingsError, SinkError
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


def test_the_largest_offset_fits_into_a_long() -> None:
    assert MessageId(2**31 - 1, 2**20 - 1, 2**12 - 1).offset == 2**63 - 1


_EDGES = [0, 1, 4_094, 4_095, 4_096, 5_000, 2**20 - 1, 2**20, 2**20 + 1, 2**31 - 1]


@given(
    st.lists(
        st.builds(
            MessageId, st.integers(0, 3), *[st.integers(-1, 2**31) | st.sampled_from(_EDGES)] * 2
        ),
        min_size=2,
    )
)
def test_offsets_never_fall_however_large_batches_and_ledgers_are(ids: list[MessageId]) -> None:
    ordered = sorted(id_._replace(entry=max(0, id_.entry)) for id_ in ids)
    offsets = [id_.offset for id_ in ordered]
    assert offsets == sorted(offsets)
    assert all(
        id_at(offset) <= id_._replace(batch=max(0, id_.batch))
        for id_, offset in zip(ordered, offsets, strict=True)
    )


@pytest.mark.parametrize(
    ("id_", "first"),
    [
        (MessageId(1, 7, 5_000), MessageId(1, 7, 4_095)),
        (MessageId(1, 2**20, 3), MessageId(1, 2**20 - 1, 4_095)),
        (MessageId(1, 2**20 - 1, 3), MessageId(1, 2**20 - 1, 3)),
        (MessageId(12, 34, -1), MessageId(12, 34, 0)),
        (MessageId(2**31 - 1, 2**20 - 1, 2**12 - 1), MessageId(2**31 - 1, 2**20 - 1, 2**12 - 1)),
    ],
)
def test_messages_without_a_number_of_their_own_share_the_last_one_before(
    id_: MessageId, first: MessageId
) -> None:
    assert id_at(id_.offset) == first


def test_a_ledger_without_room_is_refused() -> None:
    with pytest.raises(SinkError, match=r"ledger ids must be below 2\^31"):
        _ = MessageId(2**31, 0, 0).offset
