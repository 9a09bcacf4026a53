"""Splits a stream of blocks into lines; holds no more of a line than is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sinks.wire.size_limits import WireLimits


class Line(NamedTuple):
    """`value`: the line without newline, or its beginning; `size`: bytes of the whole line;
    `ended`: whether its newline was found.
    """

    value: bytes
    size: int
    ended: bool


def split_lines(blocks: Iterable[bytes], limits: WireLimits) -> Iterator[Line]:
    """Lines in order; the last one may lack its newline. Lines above `max_record_bytes` are cut to
    `kept_bytes`.
    """
    rest, size = bytearray(), 0
    for block in blocks:
        # Inside a line of which no more is kept: most of a topic with lines of 8 MiB.
        if size > limits.max_record_bytes and len(rest) >= limits.kept_bytes and b"\n" not in block:
            size += len(block)
            continue
        *ended, tail = block.split(b"\n")
        for piece in ended:
            yield (
                Line(_kept(rest, size, piece, limits), size + len(piece), True)
                if size
                else _whole(piece, limits)
            )
            rest, size = bytearray(), 0
        size += len(tail)
        rest += tail
        if size > limits.max_record_bytes:
            del rest[limits.kept_bytes :]
    if size:
        yield Line(_kept(rest, size, b"", limits), size, False)


def _whole(piece: bytes, limits: WireLimits) -> Line:
    size = len(piece)
    return Line(
        piece if size <= limits.max_record_bytes else piece[: limits.kept_bytes], size, True
    )


def _kept(rest: bytearray, size: int, piece: bytes, limits: WireLimits) -> bytes:
    """The line made of `rest` (of which `size` bytes were seen) and `piece`, cut if it is too
    long.
    """
    if size + len(piece) <= limits.max_record_bytes:
        return bytes(rest) + piece
    return bytes(rest[: limits.kept_bytes]) + piece[: max(0, limits.kept_bytes - len(rest))]
