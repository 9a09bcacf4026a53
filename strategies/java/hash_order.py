"""The iteration order of Java's hash maps, which decides ties and the last bits of sums in parity
mode.

Source of the rule: `java.util.HashMap` and `java.util.concurrent.ConcurrentHashMap` of Java 17 with
`String` keys. A table of n buckets keeps a key in bucket `spread & (n - 1)` and is walked bucket by
bucket. Keys are given in the order of insertion, without repetitions. Not covered: buckets of more
than eight keys in a table of 64 or more, which Java turns into trees.
"""

from collections.abc import Collection, Sequence

import numpy as np

from strategies.bundles import Floats, Ints

INITIAL_TABLE = 16
#: Below this table size a crowded bucket makes Java double the table.
_TREES_FROM = 64
_CROWD = 8
#: Names longer than this are hashed one by one, so that one long name does not widen the table of
#: all names.
_WIDE = 256
_CHUNK = 1 << 16
_INVERSE_OF_31 = pow(31, -1, 2**32)


def java_hash(text: str) -> int:
    """`String.hashCode` as an unsigned 32-bit number, computed over UTF-16 units: an emoji counts
    as two.
    """
    value = 0
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def concurrent_hash_map_order(names: Sequence[str]) -> Ints:
    """int64[n]: positions of `names` in the iteration order of a new ConcurrentHashMap."""
    return _concurrent_order(_spreads(names))


def hash_map_order(names: Sequence[str], table_size: int = INITIAL_TABLE) -> tuple[Ints, int]:
    """int64[n]: positions in the iteration order of a HashMap, and its table size afterwards.

    `table_size`: the size after an earlier use, because a map that is cleared keeps its table.
    """
    return _order(_spreads(names), table_size)


def copied_order(
    names: Sequence[str], table_size: int = INITIAL_TABLE, left_out: Collection[int] = ()
) -> tuple[Ints, int]:
    """As `hash_map_order`, for a HashMap filled in the iteration order of a new ConcurrentHashMap
    of these names; hashes every name once.

    `left_out`: positions of names that only the ConcurrentHashMap holds.
    """
    spread = _spreads(names)
    walk = _concurrent_order(spread)
    if left_out:
        walk = walk[~np.isin(walk, list(left_out))]
    order, size = _order(spread[walk], table_size)
    return walk[order], size


def double_keys(values: Floats) -> Ints:
    """int64[n] that compare as the doubles do under `Double.compare`: −0.0 before 0.0, NaN equal to
    NaN and greatest.
    """
    bits = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.int64)
    # numpy's quiet NaN is positive, so flipping the magnitude of negative numbers suffices.
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def _concurrent_order(spread: Ints) -> Ints:
    size, filled = INITIAL_TABLE, 0
    table = np.empty(0, dtype=np.int64)
    while filled < len(spread):
        stop = min(len(spread), size * 3 // 4)
        crowded = _first_crowded(spread, size, filled, stop)
        stop = stop if crowded is None else crowded
        table = _by_bucket(np.concatenate([table, np.arange(filled, stop)]), spread, size)
        filled, enough = stop, 0 if crowded is None else 4 * size
        while filled * 4 >= size * 3 or size * 3 < enough * 4:
            table, size = _transfer(table, spread, size), size * 2
    return table


def _order(spread: Ints, size: int) -> tuple[Ints, int]:
    filled = 0
    while filled < len(spread):
        stop = min(len(spread), size * 3 // 4 + 1)
        crowded = _first_crowded(spread, size, filled, stop)
        filled = stop if crowded is None else crowded
        size *= 1 if crowded is None else 2
        size *= 2 if filled * 4 > size * 3 else 1
    return _by_bucket(np.arange(len(spread)), spread, size), size


def _spreads(names: Sequence[str]) -> Ints:
    """int64[n]: Java's hashes with their upper half folded into the lower one, as both maps use
    them.
    """
    chunks = [_hashes(names[start : start + _CHUNK]) for start in range(0, len(names), _CHUNK)]
    hashes = np.concatenate(chunks) if chunks else np.empty(0, dtype=np.uint32)
    return (hashes ^ (hashes >> np.uint32(16))).astype(np.int64)


def _hashes(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Java's hashes: of most names in one computation, of very long names and names with characters
    above U+FFFF one by one.

    The hash is Σ cᵢ·31^(n−1−i) = 31^(n−1)·Σ cᵢ·31^−i modulo 2^32, where 31 has an inverse. So one
    product serves names of all lengths, because shorter names are padded with zeros.
    """
    odd = (
        {}
        if _are_plain(names)
        else {index: name for index, name in enumerate(names) if not _are_plain([name])}
    )
    plain = ["" if index in odd else name for index, name in enumerate(names)] if odd else names
    lengths = np.fromiter(map(len, plain), np.int64, len(plain))
    width = max(1, int(lengths.max(initial=0)))
    units = np.array(plain, dtype=f"U{width}").view(np.uint32).reshape(len(plain), width)
    value = (units @ _powers(_INVERSE_OF_31, width)) * _powers(31, width)[
        np.maximum(lengths - 1, 0)
    ]
    for index, name in odd.items():
        value[index] = java_hash(name)
    return value


def _powers(base: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """uint32[n]: base^0 … base^(n−1), modulo 2^32."""
    return np.multiply.accumulate(np.array([1, *[base] * (count - 1)], dtype=np.uint32))


def _are_plain(names: Sequence[str]) -> bool:
    """Whether all names are short enough and have one UTF-16 unit per character."""
    together = "".join(names)
    return max(map(len, names), default=0) <= _WIDE and (
        together.isascii() or max(together) <= "\uffff"
    )


def _by_bucket(table: Ints, spread: Ints, size: int) -> Ints:
    """The table sorted by bucket. Java appends a key to its bucket, so a stable sort keeps new keys
    behind older ones.
    """
    return table[np.argsort(spread[table] & (size - 1), kind="stable")]


def _first_crowded(spread: Ints, size: int, filled: int, stop: int) -> int | None:
    """Number of keys in the table when a key from `filled` on becomes the ninth of its bucket; None
    when no bucket reaches nine.
    """
    if size >= _TREES_FROM:
        return None
    counts = [0] * size
    for index, bucket in enumerate((spread[:stop] & (size - 1)).tolist()):
        counts[bucket] += 1
        if index >= filled and counts[bucket] > _CROWD:
            return index + 1
    return None


def _transfer(table: Ints, spread: Ints, size: int) -> Ints:
    """The table after doubling. In each bucket, the longest tail of keys with the same new bucket
    keeps its order; Java re-links the other keys one by one at the front of their new bucket, which
    reverses them.
    """
    bucket = spread[table] & (2 * size - 1)
    old, position = bucket & (size - 1), np.arange(len(table))
    starts_run = np.ones(len(table), dtype=bool)
    starts_run[1:] = bucket[1:] != bucket[:-1]
    run = np.maximum.accumulate(np.where(starts_run, position, 0))
    last_of_old = np.searchsorted(old, old, side="right") - 1
    in_last_run = run == run[last_of_old]
    place = np.where(in_last_run, len(table) + position, len(table) - 1 - position)
    return table[np.argsort(bucket * (2 * len(table)) + place, kind="stable")]
