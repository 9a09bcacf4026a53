"""Message ids as numbers: in order, one number for one message, and a sentence where there is no room."""

from __future__ import annotations

import pytest

from sinks.pulsar_message import MessageId
from strategies.errors import SinkError


def test_offsets_grow_as_ids_do() -> None:
    ids = [MessageId(3, 0, -1), MessageId(3, 1, 0), MessageId(3, 1, 1), MessageId(3, 2, -1), MessageId(12, 0, 0), MessageId(12, 0, 4095)]
    assert ids == sorted(ids)
    assert [one.offset for one in ids] == sorted({one.offset for one in ids})


def test_the_largest_offset_fits_into_a_long() -> None:
    assert MessageId(2**31 - 1, 2**20 - 1, 2**12 - 1).offset == 2**63 - 1


@pytest.mark.parametrize("id_", [MessageId(2**31, 0, 0), MessageId(1, 2**20, 0), MessageId(1, 0, 2**12)])
def test_what_has_no_room_is_told(id_: MessageId) -> None:
    with pytest.raises(SinkError, match=r"managedLedgerMaxEntriesPerLedger or the producers' batches"):
        _ = id_.offset
