"""Message ids of a Pulsar partition, and their mapping to one number for readers that need an
offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from strategies.errors import SinkError

if TYPE_CHECKING:
    import pulsar

#: 63 bits: BookKeeper assigns ledger ids of 31 bits; by default brokers close a ledger after 50,000
#: entries and clients a batch after 1,000 messages.
_LEDGER_BITS, _ENTRY_BITS, _BATCH_BITS = 31, 20, 12
_LAST_ENTRY, _LAST_IN_BATCH = (1 << _ENTRY_BITS) - 1, (1 << _BATCH_BITS) - 1


class MessageId(NamedTuple):
    """A message id, ordered as the messages of a partition. `batch`: index within the entry; -1 for
    an entry with one message.
    """

    ledger: int
    entry: int
    batch: int

    @property
    def offset(self) -> int:
        """An offset that never decreases while ids grow: ledger · 2³² + entry · 2¹² + index in the
        batch.

        Messages after the 4,096th of a batch, or the 2²⁰th entry of a ledger, share the largest
        offset of their entry or ledger. Raises SinkError for a ledger beyond 2³¹.
        """
        if self.ledger >> _LEDGER_BITS:
            raise SinkError(
                f"message {self.ledger}:{self.entry}:{self.batch}: ledger ids must be below "
                f"2^{_LEDGER_BITS}; use a topic on a "
                "cluster whose BookKeeper assigns such ids"
            )
        batch = (
            min(max(0, self.batch), _LAST_IN_BATCH) if self.entry <= _LAST_ENTRY else _LAST_IN_BATCH
        )
        return (
            self.ledger << (_ENTRY_BITS + _BATCH_BITS)
            | min(self.entry, _LAST_ENTRY) << _BATCH_BITS
            | batch
        )

    def for_client(self) -> pulsar.MessageId:
        """The id as Pulsar's client expects it."""
        import pulsar

        made: pulsar.MessageId = pulsar.MessageId(-1, self.ledger, self.entry, self.batch)._msg_id
        return made


def id_of(found: Any) -> MessageId:
    """The id of a message of Pulsar's client."""
    return MessageId(found.ledger_id(), found.entry_id(), found.batch_index())


def id_at(offset: int) -> MessageId:
    """The first id with this offset; `batch` is 0 for an entry with one message."""
    entries = offset >> _BATCH_BITS
    return MessageId(entries >> _ENTRY_BITS, entries & _LAST_ENTRY, offset & _LAST_IN_BATCH)


def is_shared(id_: MessageId) -> bool:
    """Whether later messages may have the same offset."""
    return id_.batch >= _LAST_IN_BATCH
