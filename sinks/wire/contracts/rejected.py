"""REJECTED: every record that could not be used, with its position and original bytes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from sinks.wire.contracts.fields import Cluster, Count, Text, Version


class RejectedRecord(Struct, frozen=True):
    """A record that could not be used: its position, the reason and the original bytes."""

    v: Version
    topic: str
    partition: Annotated[Count, Meta(description="of a file topic: the segment's number")]
    offset: Annotated[Count, Meta(description="of a file topic: the byte in the segment")]
    cluster: Cluster | None
    code: Annotated[str, Meta(min_length=1, description="stable, for programs")]
    text: Text
    original: Annotated[
        bytes, Meta(description="base64 of the record, or of its beginning when `truncated`")
    ]
    size: Annotated[Count, Meta(description="bytes of the whole record")]
    truncated: bool
