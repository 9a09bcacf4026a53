"""A topic by which a bundle can be looked up, whatever topics it has."""

from __future__ import annotations

from functools import lru_cache

from strategies.bundles import parse_bundle, topic_hash

#: Names to try: enough for a namespace of 10,000 bundles, with a chance of 1 in 10^8 to find none.
_TRIES = 200_000


@lru_cache(4_096)
def topic_to_look_up(bundle: str) -> str | None:
    """`non-persistent/tenant/namespace/name` whose hash is in the bundle; None for a range so
    narrow that none was found.

    A look-up of a non-persistent topic asks for no metadata of it and creates none.
    """
    parsed = parse_bundle(bundle)
    if parsed is None:
        return None
    namespace, range_ = parsed
    prefix = f"non-persistent://{namespace}/rebalancer-"
    found = (number for number in range(_TRIES) if topic_hash(f"{prefix}{number}") in range_)
    number = next(found, None)
    return None if number is None else f"non-persistent/{namespace}/rebalancer-{number}"
