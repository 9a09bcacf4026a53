"""Records with one field changed or left out."""

import json

from tests.telemetry_lines import dumps


def changed(record: bytes, *path: str | int, to: object) -> bytes:
    """The record with one field set; the way there must exist."""
    tree = json.loads(record)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = to
    return dumps(tree)


def without(record: bytes, *path: str | int) -> bytes:
    tree = json.loads(record)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    return dumps(tree)
