"""Dataclasses are written as `asdict` gives them, without the copies."""

from __future__ import annotations

import json
from dataclasses import asdict

from strategies.rivals.state import ForeignMove, OwnMove, Rivals, Sighting, Suspect, to_tree
from strategies.shallow import compact_json, shallow

MOVE = ForeignMove("t/n/0x00_0x01", "a:1", "ü:1", 5)
RIVALS = Rivals(
    watching_ms=3,
    left={"t/n/0x00_0x01": Sighting("a:1", 5, explained=True)},
    ours={"t/n/0x00_0x01": (OwnMove("id", "a:1", None, 1, 2),)},
    suspects=(Suspect(MOVE, 1, 2),),
    news=(MOVE,),
)


def test_the_bytes_are_those_of_copies() -> None:
    copied = json.dumps(asdict(RIVALS), separators=(",", ":"), ensure_ascii=False).encode()
    assert compact_json(shallow(RIVALS)) == compact_json(RIVALS) == copied


def test_fields_with_their_default_are_left_out() -> None:
    assert list(to_tree(RIVALS)) == ["watching_ms", "left", "ours", "suspects", "news"]
