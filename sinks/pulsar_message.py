"""Where a message stands in a partition of a Pulsar topic, and which number that is for those who want one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from strategies.errors import SinkError

if TYPE_CHECKING:
    import pulsar

#: 63 bits: BookKeeper hands out ledgers of 31 bits, brokers close a ledger after 50,000 entries, clients a batch after 1,000 messages.
_LEDGER_BITS, _ENTRY_BITS, _BATCH_BITS = 31, 20, 12


class MessageId(NamedTuple):
    """Ordered as the messages of a partition are. `batch`: the place within the entry; -1 where an entry is one message."""

    ledger: int
    entry: int
    batch: int

    @property
    def offset(self) -> int:
        """A number that grows with the id: ledger · 2³² + entry · 2¹² + place in the batch. Raises SinkError where that has no room."""
        batch = max(0, self.batch)
        if self.ledger >> _LEDGER_BITS or self.entry >> _ENTRY_BITS or batch >> _BATCH_BITS:
            raise SinkError(
                f"message {self.ledger}:{self.entry}:{self.batch}: a ledger may hold 2^{_ENTRY_BITS} entries and an entry 2^{_BATCH_BITS} "
                "messages here; lower the brokers' managedLedgerMaxEntriesPerLedger or the producers' batches"
            )
        return self.ledger << (_ENTRY_BITS + _BATCH_BITS) | self.entry << _BATCH_BITS | batch

    def for_client(self) -> pulsar.MessageId:
        """The same as Pulsar's client takes it."""
        import pulsar

        made: pulsar.MessageId = pulsar.MessageId(-1, self.ledger, self.entry, self.batch)._msg_id
        return made


def id_of(found: Any) -> MessageId:
    """Of a message id of Pulsar's client."""
    return MessageId(found.ledger_id(), found.entry_id(), found.batch_index())


def id_at(offset: int) -> MessageId:
    """The id that has this offset; `batch` is 0 where an entry is one message."""
    entries = offset >> _BATCH_BITS
    return MessageId(entries >> _ENTRY_BITS, entries & (1 << _ENTRY_BITS) - 1, offset & (1 << _BATCH_BITS) - 1)
