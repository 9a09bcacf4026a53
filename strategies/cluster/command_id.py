"""The id of a command."""

from __future__ import annotations

from hashlib import blake2b


def command_id(cluster: str, epoch: int, round_: int, action: str, bundle: str) -> str:
    """32 hex digits derived from the content alone, so that a repeated publication carries the same
    id.
    """
    return blake2b(
        "\x1f".join((cluster, str(epoch), str(round_), action, bundle)).encode(), digest_size=16
    ).hexdigest()
