"""Checks values by the types and bounds of their settings, with pydantic; and the JSON Schema of a
settings file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

from pulsar_rebalancer.settings.leaves import Leaf

SCHEMA_ID = "urn:pulsar-rebalancer:settings:v1"


def checked(leaf: Leaf, value: Any) -> Any:
    """The value; an integer becomes a float where that belongs. Raises pydantic's ValidationError
    for a wrong type, NaN, and a value out of bounds.
    """
    return _adapter(leaf).validate_python(value)


@cache
def _adapter(leaf: Leaf) -> TypeAdapter[Any]:
    return TypeAdapter(_bounded(leaf), config=ConfigDict(strict=True, allow_inf_nan=False))


def json_schema(leaves: tuple[Leaf, ...]) -> dict[str, Any]:
    """JSON Schema (2020-12) of a settings file. Units, Pulsar's keys and environment variables are
    in `x-` fields.
    """
    schema = _table("", leaves).model_json_schema(schema_generator=_Schema)
    text = "Several Pulsar clusters by name; values of such a table override [pulsar]"
    clusters = {
        "type": "object",
        "description": text,
        "additionalProperties": {"$ref": "#/$defs/Pulsar"},
    }
    schema["properties"]["clusters"] = clusters
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": SCHEMA_ID, **schema}


class _Schema(GenerateJsonSchema):
    """Without the titles that pydantic derives from field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _table(prefix: str, leaves: Sequence[Leaf]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for leaf in leaves:
        key, _, deeper = leaf.path.removeprefix(prefix).partition(".")
        if not deeper:
            fields[key] = (_bounded(leaf), _field(leaf))
        elif key not in fields:
            below = [other for other in leaves if other.path.startswith(f"{prefix}{key}.")]
            inner = _table(f"{prefix}{key}.", below)
            fields[key] = (inner, Field(default_factory=inner))
    name = "".join(part.capitalize() for part in prefix.split(".")) or "Settings"
    config = ConfigDict(extra="forbid", protected_namespaces=())
    model: type[BaseModel] = create_model(name, __config__=config, **fields)
    return model


def _bounded(leaf: Leaf) -> Any:
    """The type with the bounds of its numbers; a word beside the numbers has none."""
    several = get_origin(leaf.kind) in (Union, UnionType)
    options = get_args(leaf.kind) if several else (leaf.kind,)
    bounds = Field(ge=leaf.setting.ge, le=leaf.setting.le)
    bounded = [
        Annotated[option, bounds] if option in (int, float) else option for option in options
    ]
    return Union[tuple(bounded)]  # noqa: UP007 - one option stays what it is


def _field(leaf: Leaf) -> Any:
    setting = leaf.setting
    extra: dict[str, Any] = {
        "x-unit": setting.unit,
        "x-pulsar-key": setting.pulsar,
        "x-env": leaf.env,
        "x-pulsar-version-defaults": dict(leaf.defaults),
    }
    return Field(
        default=leaf.default,
        description=setting.text,
        json_schema_extra={key: value for key, value in extra.items() if value},
    )
