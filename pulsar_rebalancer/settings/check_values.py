"""Checks values by the types and bounds of their settings, with pydantic; complaints, one sentence
each: dotted path, what is wrong, and the source of the value; warnings about settings without
effect; and the JSON Schema of a file.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from pulsar_rebalancer.settings.setting_paths import REMOVED, Leaf
from pulsar_rebalancer.settings.value_sources import Assignment, SettingEntry, did_you_mean
from strategies.fold.engine import EngineSettings, placement_of

_WRONG_TYPE = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a string",
}


@cache
def adapter(leaf: Leaf) -> TypeAdapter[Any]:
    """What checks a value: an integer becomes a float where that belongs; a wrong type, NaN, and a
    value out of bounds are errors.
    """
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
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": "urn:pulsar-rebalancer:settings:v1",
        **schema,
    }


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


def about_paths(assignments: Sequence[Assignment], leaves: Sequence[Leaf]) -> list[str]:
    """Complaints about paths that are not settings."""
    known = {leaf.path for leaf in leaves}
    tables = {leaf.section for leaf in leaves}
    complaints: dict[tuple[str, str], str] = {}
    for given in assignments:
        if given.path not in known and not (given.path in tables and given.value == {}):
            path, sentence = _misplaced(given, known, tables)
            complaints.setdefault((path, given.source), f"{path}: {sentence} ({given.source})")
    return list(complaints.values())


def about_value(error: ValidationError, leaf: Leaf, source: str) -> str:
    """The complaint about a value of the wrong type or out of bounds."""
    return f"{leaf.path}: {_wrong(error.errors(include_url=False)[0], leaf)} ({source})"


def idle_placement(engine: EngineSettings) -> list[str]:
    """The warning about a placement that does not place."""
    wanted, placed_by = engine.placement, placement_of(engine)[0]
    if wanted in ("auto", placed_by):
        return []
    return [
        f"placement.strategy = {shown(wanted)} has no effect: from Pulsar "
        f"{engine.pulsar_version} on it places only where the same class sheds, otherwise "
        f"{placed_by} places; set placement.strategy = {shown(placed_by)}"
    ]


def idle_tables(entries: Sequence[SettingEntry], engine: EngineSettings) -> list[str]:
    """One warning per table with settings of a strategy that does not run, while no source names a
    strategy.
    """
    kinds = {entry.leaf.path: entry.kind for entry in entries}
    if kinds["shedding.strategy"] != "default":
        return []
    others = {f"shedding.{name}": name for name in engine.shedders}
    tables = dict.fromkeys(entry.leaf.section for entry in entries if entry.kind != "default")
    return [
        f"{table} has no effect: shedding.strategy is {shown(engine.strategy)},"
        f" the default; to use {table}, set shedding.strategy = "
        f"{shown(others[table])}"
        for table in tables
        if table in others and others[table] != engine.strategy
    ]


def shown(value: Any) -> str:
    """A value as written in a settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else f"{text[:57]}..."


def _misplaced(given: Assignment, known: set[str], tables: set[str]) -> tuple[str, str]:
    above = next((path for path in known if given.path.startswith(f"{path}.")), None)
    if above is not None:
        return above, "must be a single value, got a table"
    if given.path in tables:
        return (
            given.path,
            f"is a table, got {shown(given.value)}; write its keys below [{given.path}]",
        )
    if given.path in REMOVED:
        return given.path, REMOVED[given.path]
    return given.path, f"unknown setting{_suggestion(given.path, known | tables)}"


def _suggestion(path: str, known: set[str]) -> str:
    close = get_close_matches(path, known, n=1, cutoff=0.8)
    if not close:
        key = path.rpartition(".")[2]
        # Of several settings with this key, the first one.
        by_key = {other.rpartition(".")[2]: other for other in sorted(known, reverse=True)}
        close = [by_key[name] for name in get_close_matches(key, by_key, n=1, cutoff=0.8)]
    return (
        f"; did you mean {close[0]}?" if close else "; `rebalancer config show` lists all settings"
    )


def _wrong(details: ErrorDetails, leaf: Leaf) -> str:
    got, context = shown(details["input"]), details.get("ctx", {})
    unit = f" {leaf.setting.unit}".rstrip()
    match details["type"]:
        case "greater_than_equal":
            return f"must be at least {_number(context['ge'])}{unit}, got {got}"
        case "less_than_equal":
            return f"must be at most {_number(context['le'])}{unit}, got {got}"
        case "literal_error":
            return f"must be one of {context['expected']}, got {got}{_near(details)}"
        case "bool_type":
            others = [kind for kind in get_args(leaf.kind) if get_origin(kind) is Literal]
            options = ["true", "false", *(word for kind in others for word in get_args(kind))]
            return f"must be {', '.join(options[:-1])} or {options[-1]}, got {got}"
        case "string_type" if isinstance(details["input"], list):
            return (
                "must be a string, got a list; write several values into one string, separated by "
                "commas"
            )
        case other:
            return f"{_WRONG_TYPE.get(other, details['msg'])}, got {got}"


def _near(details: ErrorDetails) -> str:
    """A similar word; a similar number is no slip of the pen."""
    if not any(letter.isalpha() for letter in str(details["input"])):
        return ""
    options = [
        option.strip("'")
        for option in str(details.get("ctx", {}).get("expected", ""))
        .replace(" or ", ", ")
        .split(", ")
    ]
    return did_you_mean(str(details["input"]), options, 0.6)


def _number(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
