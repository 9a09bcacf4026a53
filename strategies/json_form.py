"""JSON of states: dataclasses become objects with the names of their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any


def shallow(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, each as it is."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


def json_bytes(tree: Any) -> bytes:
    """Compact JSON. `tree`: JSON values, dataclasses, tuples and mappings, at any depth."""
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


@lru_cache(maxsize=256)
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def _plain(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else shallow(value)
