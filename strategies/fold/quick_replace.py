"""`dataclasses.replace` for the values that change with every record, at a tenth of its time."""

from __future__ import annotations

from typing import Any, TypeVar

V = TypeVar("V")


def quick_replace(value: V, **changes: Any) -> V:
    """A copy of a frozen dataclass without slots, with other values of some fields. Does not call
    `__init__`. Raises TypeError for names that are no fields.
    """
    copy: V = object.__new__(type(value))
    fields = copy.__dict__
    fields.update(value.__dict__)
    fields.update(changes)
    if len(fields) != len(value.__dict__):
        unknown = sorted(changes.keys() - value.__dict__.keys())
        raise TypeError(f"{type(value).__name__} has no field {', '.join(unknown)}")
    return copy
