"""Errors of a scenario file as sentences, each with its place in the file."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Place = tuple[str | int, ...]
_MUST_BE = {
    "number": ("float_type", "float_parsing", "finite_number"),
    "whole number": ("int_type", "int_parsing", "int_from_float"),
    "text in quotes": ("string_type",),
    "list": ("tuple_type", "list_type"),
    "table": ("dict_type", "model_type", "model_attributes_type"),
}
_TYPES = {kind: f"must be a {what}" for what, kinds in _MUST_BE.items() for kind in kinds} | {
    "bool_type": "must be true or false"
}
_BOUNDS = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}
_NAME = "may contain letters, digits, '.', '_' and '-' only"
_NAMESPACE = "must be tenant/namespace, each of letters, digits, '.', '_', '-', ':' and '='"
_PLAIN = {
    "missing": "is missing",
    "union_tag_not_found": "kind is missing",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


def complaints(error: ValidationError, form: type[BaseModel]) -> list[str]:
    """All errors, in the order of the schema, without those that only follow from another one."""
    details = error.errors(include_url=False)
    wrong = [_place(one["loc"]) for one in details]
    found: dict[str, list[str]] = {}
    for one, place in zip(details, wrong, strict=True):
        # A list is reported as empty when all its entries were invalid; of alternative types, the
        # first is the usual one.
        consequence = one["type"] == "too_short" and any(
            len(other) > len(place) and other[: len(place)] == place for other in wrong
        )
        if not consequence and (_written(place) not in found or one["type"] == "value_error"):
            found.setdefault(_written(place), []).extend(_sentence(one, form).split("\n"))
    return [
        f"{place}: {text}" if place else text for place, texts in found.items() for text in texts
    ]


def _place(loc: Place) -> Place:
    """The place without the names of the alternatives that pydantic tried."""
    tried, tags = (
        ("constrained-", "tuple[", "function-"),
        ("float", "int", "steps", "on-off", "daily", "trace"),
    )
    return tuple(
        part
        for part in loc
        if isinstance(part, int) or (part not in tags and not part.startswith(tried))
    )


def _written(place: Place) -> str:
    text = ""
    for part in place:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _sentence(one: ErrorDetails, form: type[BaseModel]) -> str:
    kind, context = one["type"], one.get("ctx", {})
    got = f", got {_shown(one['input'])}"
    if kind in _TYPES:
        return _TYPES[kind] + got
    if kind in _BOUNDS:
        key, must = _BOUNDS[kind]
        return f"{must} {context[key]:g}{got}"
    if kind == "extra_forbidden":
        return f"unknown key{_meant(one['loc'], form)}"
    if kind == "literal_error":
        return f"must be one of {context['expected']}{got}"
    if kind == "union_tag_invalid":
        return f"kind must be one of {context['expected_tags']}, got '{context['tag']}'"
    if kind == "string_pattern_mismatch":
        return (_NAMESPACE if "/" in context["pattern"] else _NAME) + got
    return _PLAIN.get(kind, one["msg"].removeprefix("Value error, "))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return "a table" if isinstance(value, Mapping) else "a list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _meant(loc: Place, form: type[BaseModel]) -> str:
    """Suggests a similar key, otherwise lists the known keys."""
    known = sorted(_keys(loc[:-1], form))
    close = get_close_matches(str(loc[-1]), known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(known)}"


def _keys(loc: Place, form: type[BaseModel]) -> set[str]:
    forms = [form]
    for part in loc:
        if isinstance(part, str) and any(part in one.model_fields for one in forms):
            forms = [
                found
                for one in forms
                if part in one.model_fields
                for found in _forms(one.model_fields[part].annotation)
            ]
        tagged = [
            one
            for one in forms
            if "kind" in one.model_fields and part in get_args(one.model_fields["kind"].annotation)
        ]
        forms = tagged or forms
    return {name for one in forms for name in one.model_fields}


def _forms(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Annotated, Union, UnionType, tuple, dict):
        for inner in get_args(annotation):
            yield from _forms(inner)
