"""Parses values of a broker.conf as Pulsar does, and converts them to our units and names."""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

from rebalancer.settings.broker_conf.keys import LIMITER, PLACEMENT, SHEDDING, Key, Value
from rebalancer.settings.leaves import Leaf
from strategies.placement.registry import PLACERS
from strategies.shedding.registry import SHEDDERS

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_BITS = {"int": 32, "long": 64}
#: Suffix of a key → ms per unit.
_MILLISECONDS = (("Minutes", 60_000), ("InSeconds", 1000), ("InSecs", 1000))


def read(key: Key, text: str) -> Value:
    """The value of a key. Raises ValueError with the reason if it is invalid."""
    text = text.strip()
    match key.kind:
        case "boolean":
            return _truth(text)
        case "double":
            if not _DECIMAL.fullmatch(text):
                raise ValueError(f"must be a number, got {text!r}")
            return float(text.rstrip("dDfF"))
        case "int" | "long" as kind:
            return _whole(text, _BITS[kind])
        case "text":
            return text


def class_names(key: str) -> dict[str, str]:
    """For keys that name a class: class → our name for it."""
    match key:
        case _ if key == SHEDDING:
            return {entry.pulsar_class: name for name, entry in SHEDDERS.items()}
        case _ if key == PLACEMENT:
            return {entry.pulsar_class: name for name, entry in PLACERS.items()}
        case _ if key == LIMITER:
            package = "org.apache.pulsar.broker.service.persistent.DispatchRateLimiterFactory"
            return {f"{package}AsyncTokenBucket": "token_bucket", f"{package}Classic": "classic"}
        case _:
            return {}


def converted(key: str, value: Value, leaf: Leaf) -> Any:
    """The value in the unit and type of our setting."""
    if leaf.setting.unit == "ms" and isinstance(value, int):
        return value * next((factor for ending, factor in _MILLISECONDS if key.endswith(ending)), 1)
    if isinstance(value, str):
        return _names(value) if get_origin(leaf.kind) in (tuple, list) else value
    if isinstance(value, bool):
        return value
    if float in (leaf.kind, *get_args(leaf.kind)):
        return float(value)
    return int(value) if float(value).is_integer() else value


def _truth(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError(f"must be true or false, got {text!r} (Pulsar takes it for false)")


def _whole(text: str, bits: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"must be a whole number, got {text!r}")
    if not -(2 ** (bits - 1)) <= (number := int(text[:40])) < 2 ** (bits - 1):
        raise ValueError(f"must fit into {bits} bits, got {text[:40]}")
    return number


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
