"""Draws the destination among brokers that are equally good, the same one for the same seed."""

from collections.abc import Sequence
from hashlib import blake2b


def draw(best: Sequence[str], seed: str) -> str:
    """Draws one of these brokers, each with the same probability over all seeds, whatever their
    order.
    """
    number = int.from_bytes(
        blake2b(seed.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )
    return sorted(best)[number % len(best)]
