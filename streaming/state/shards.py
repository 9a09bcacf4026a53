"""Shards: the clusters are distributed over as many groups as there are partitions of state, one
group per partition. Imports no Spark.

A shard has one set of rows, so the calls to Spark's state per micro-batch do not depend on the
number of clusters.
"""

from functools import lru_cache
from hashlib import blake2b
from itertools import count

_SEED = 42
_WORD = 0xFFFFFFFF


@lru_cache(maxsize=8)
def shard_keys(partitions: int) -> tuple[int, ...]:
    """Keys of the shards in Spark, in the order of the partitions to which Spark sends them: the
    smallest number that Spark's hash maps to each.
    """
    keys: dict[int, int] = {}
    for key in count():
        keys.setdefault(spark_hash(key) % partitions, key)
        if len(keys) == partitions:
            return tuple(keys[partition] for partition in range(partitions))
    raise AssertionError  # `count` has no end


def shard_of(cluster: str, partitions: int) -> int:
    """Returns the key of a cluster's shard, which depends on the name and the number only."""
    digest = blake2b(cluster.encode(), digest_size=8).digest()
    return shard_keys(partitions)[int.from_bytes(digest, "big") % partitions]


def spark_hash(key: int) -> int:
    """Returns Spark's hash of an integer column (Murmur3 of 32 bits, signed)."""
    mixed = _times(_rotated(_times(key, 0xCC9E2D51), 15), 0x1B873593)
    hashed = (_times(_rotated(_SEED ^ mixed, 13), 5) + 0xE6546B64) & _WORD
    hashed ^= 4  # the number of bytes
    hashed = _times(hashed ^ (hashed >> 16), 0x85EBCA6B)
    hashed = _times(hashed ^ (hashed >> 13), 0xC2B2AE35)
    hashed ^= hashed >> 16
    return hashed - 2**32 if hashed >= 2**31 else hashed


def _times(word: int, factor: int) -> int:
    return (word * factor) & _WORD


def _rotated(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD
