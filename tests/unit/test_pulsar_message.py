"""Message ids as numbers: in order, one number for one message, but for batches and ledgers of
unusual size.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.topics.pulsar.partition import MessageId, id_at
from strategies.errors import SinkError


def test_offsets_grow_as_ids_do() -> None:
    ids = [
        MessageId(3, 0, -1),
        MessageId(3, 1, 0),
        MessageId(3, 1, 1),
        MessageId(3, 2, -1),
        MessageId(12, 0, 0),
        MessageId(12, 0, 4095),
    ]
    assert ids == sorted(ids)
    assert [one.offset for one in ids] == sorted({one.offset for one in ids})


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
    ],
)
def test_messages_without_a_number_of_their_own_share_the_last_one_before(
    id_: MessageId, first: MessageId
) -> None:
    assert id_at(id_.offset) == first


def test_a_ledger_without_room_is_refused() -> None:
    with pytest.raises(SinkError, match=r"ledger ids must be below 2\^31"):
        _ = MessageId(2**31, 0, 0).offset
