"""Converts a broker.conf to our settings: every known key with its result, and warnings. Values are
read as Pulsar reads them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pulsar_rebalancer.settings.broker_conf.forms import Property, read_conf
from pulsar_rebalancer.settings.broker_conf.keys import (
    ENABLED,
    KEYS,
    LIMITER,
    LOAD_MANAGER,
    OLD_SPELLING,
    PLACEMENT,
    SHEDDING,
    Key,
    Value,
    class_name,
    counting_spelling,
    is_extensible,
    is_unknown,
    looks_like_ours,
    overruled,
)
from pulsar_rebalancer.settings.merge_sources import resolved
from pulsar_rebalancer.settings.setting_paths import Leaf, all_leaves
from pulsar_rebalancer.settings.value_sources import Assignment, did_you_mean
from strategies.errors import SettingsError
from strategies.java.pulsar_versions_and_defaults import RELEASES, PulsarRelease
from strategies.placement.registry import PLACERS
from strategies.shedding.registry import EXTENSIBLE, SHEDDERS

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?")
_BITS = {"int": 32, "long": 64}
#: Suffix of a key → ms per unit.
_MILLISECONDS = (("Minutes", 60_000), ("InSeconds", 1000), ("InSecs", 1000))
_MANAGERS = {"ModularLoadManagerImpl": "modular", "ExtensibleLoadManagerImpl": "extensible"}
_NO_LOAD = (
    "this broker reports no load while it is false, so nothing can be decided; set it to true, and "
    "loadBalancerSheddingEnabled to false"
)


@dataclass(frozen=True, slots=True)
class KeyOutcome:
    """The result of one key. `line` and `value`: None for keys that the file does not set; `why`:
    the reason of `no effect`.
    """

    key: Key
    line: int | None
    value: Value | None
    result: Literal["used", "no effect", "not set"]
    settings: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Our settings by dotted path, each with its origin; all known keys; and warnings that begin
    with file and line.
    """

    settings: Mapping[str, Any]
    origins: Mapping[str, str]
    keys: tuple[KeyOutcome, ...]
    warnings: tuple[str, ...]
    #: Key → value of every line that counts; text for keys that are not known here.
    given: Mapping[str, Value]


def convert(file: Path, release: PulsarRelease = RELEASES[0]) -> Conversion:
    """Converts a broker.conf. `release`: whose defaults apply to keys that it leaves out.
    SettingsError has every unusable value with file and line.
    """
    return convert_lines(file, read_conf(file), release)


def convert_lines(
    file: Path, properties: list[Property], release: PulsarRelease = RELEASES[0]
) -> Conversion:
    """Converts the lines of a broker.conf. `file`: what messages call it; otherwise as
    `convert`.
    """
    last = {one.key: one for one in properties}  # the last line of a key wins
    # Pulsar keeps its default for a blank value.
    given = {name: one for name, one in last.items() if one.value.strip()}
    values, wrong = _values(file, given)
    leaves = _by_key(all_leaves())
    assignments, odd = list[Assignment](), dict[str, str]()
    for name, found in leaves.items():
        answer = _answer(name, given, values, release)
        assignments += [
            one for leaf in found for one in _assigned(file, name, answer, leaf, release)
        ]
        if answer.why:
            odd[answer.given_by or LOAD_MANAGER] = (
                answer.why
            )  # a default is always known, except after a change of the load manager
    resolved(assignments, wrong)
    outcomes = tuple(
        _outcome(key, given.get(key.name), values, leaves, odd) for key in KEYS.values()
    )
    return Conversion(
        {one.path: one.value for one in assignments},
        {one.path: one.source for one in assignments},
        outcomes,
        tuple(_warnings(file, properties, outcomes)),
        {name: values.get(name, one.value) for name, one in given.items()},
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """Pulsar's value of a key. `given_by`: the key in the file that sets it (None: the default);
    `why`: why it is unusual.
    """

    value: Value | None
    given_by: str | None = None
    line: int | None = None
    why: str = ""


def _values(file: Path, given: Mapping[str, Property]) -> tuple[dict[str, Value], list[str]]:
    values, wrong = {}, []
    for name in sorted(KEYS.keys() & given.keys()):
        try:
            values[name] = _read_value(KEYS[name], given[name].value)
        except ValueError as error:
            wrong.append((given[name].line, f"{file}:{given[name].line}: {name}: {error}"))
    return values, [sentence for _, sentence in sorted(wrong)]


def _by_key(leaves: tuple[Leaf, ...]) -> dict[str, list[Leaf]]:
    found: dict[str, list[Leaf]] = {}
    for leaf in leaves:
        name = LOAD_MANAGER if leaf.key == "load_manager" else leaf.setting.pulsar
        if name is not None and name in KEYS:
            found.setdefault(name, []).append(leaf)
    return found


def _answer(
    name: str,
    given: Mapping[str, Property],
    values: Mapping[str, Value],
    release: PulsarRelease,
) -> _Answer:
    """The value of a key, after resolving old spellings and class names."""
    given_by = counting_spelling(name, values)
    line = given[given_by].line if given_by in values else None
    value = values.get(given_by, KEYS[name].default_in(release))
    by = given_by if given_by in values else None
    if name == LOAD_MANAGER:
        manager = _MANAGERS.get(class_name(str(value)))
        return _Answer(manager, by, line, "" if manager else _no_manager(class_name(str(value))))
    if name == SHEDDING and is_extensible(values):
        value = value if EXTENSIBLE.java_class in str(value) else EXTENSIBLE.pulsar_class
    names = _class_names(name)
    if names and value not in names:
        return _Answer(None, by, line, f"{value} is unknown; known are {', '.join(names)}")
    return _Answer(names[str(value)] if names else value, by, line)


def _assigned(
    file: Path, name: str, answer: _Answer, leaf: Leaf, release: PulsarRelease
) -> Iterator[Assignment]:
    """Assignments from the file; for a key without value, Pulsar's default if ours differs."""
    if answer.value is None:
        return
    value = _in_our_unit(answer.given_by or name, answer.value, leaf)
    if answer.given_by is not None:
        yield Assignment(leaf.path, value, "file", f"{file}:{answer.line}: {answer.given_by}")
    elif value != leaf.default_in(release):
        yield Assignment(leaf.path, value, "file", f"Pulsar's default of {name}")


def _outcome(
    key: Key,
    found: Property | None,
    values: Mapping[str, Value],
    leaves: Mapping[str, list[Leaf]],
    odd: Mapping[str, str],
) -> KeyOutcome:
    if found is None:
        return KeyOutcome(key, None, None, "not set")
    value = values[key.name]
    counts = leaves.get(OLD_SPELLING.get(key.name, key.name), [])
    why = (
        odd.get(key.name, "")
        or overruled(key.name, values)
        or (_NO_LOAD if key.name == ENABLED and not value else "")
        or ("" if counts else key.why)
    )
    if why:
        return KeyOutcome(key, found.line, value, "no effect", (), why)
    return KeyOutcome(key, found.line, value, "used", tuple(leaf.path for leaf in counts))


def _warnings(
    file: Path, properties: list[Property], outcomes: tuple[KeyOutcome, ...]
) -> Iterator[str]:
    """Warnings in the order of the file."""
    outcome_of = {outcome.key.name: outcome for outcome in outcomes}
    last = {one.key: one.line for one in properties}
    for one in properties:
        outcome = outcome_of.get(one.key)
        if one.remark and (outcome is not None or looks_like_ours(one.key)):
            yield f"{file}:{one.line}: {one.key}: {one.remark}"
        if outcome is None:
            if not one.remark and is_unknown(one.key):
                hint = did_you_mean(one.key, KEYS, 0.8)
                yield f"{file}:{one.line}: {one.key}: not a key of Pulsar 4.2 or 5.0{hint}"
        elif last[one.key] != one.line:
            yield f"{file}:{one.line}: {one.key}: overridden in line {last[one.key]}"
        elif outcome.result == "no effect":
            yield f"{file}:{one.line}: {one.key}: no effect: {outcome.why}"


def refuse_nothing(file: Path, conversion: Conversion) -> None:
    """Raises SettingsError for a file without any of the keys, which is probably not a
    broker.conf.
    """
    if all(outcome.result == "not set" for outcome in conversion.keys):
        raise SettingsError(
            [
                f"{file}: sets no load-balancing key of Pulsar 4.2 or 5.0; name a broker.conf, the "
                "variables or the YAML of a broker's container, or the output of `pulsar-admin "
                "brokers get-runtime-config`"
            ]
        )


def _read_value(key: Key, text: str) -> Value:
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


def _no_manager(name: str) -> str:
    known = " or ".join(_MANAGERS)
    if name == "NoopLoadManager":
        return f"this broker reports no load with it, so nothing can be decided; set {known}"
    return f"{name} is unknown, and its load cannot be read; known are {known}"


def _class_names(key: str) -> dict[str, str]:
    """For keys that name a class: class → our name for it."""
    limiter = "org.apache.pulsar.broker.service.persistent.DispatchRateLimiterFactory"
    return {
        SHEDDING: {
            entry.pulsar_class: name for name, entry in SHEDDERS.items() if entry.pulsar_class
        },
        PLACEMENT: {entry.pulsar_class: name for name, entry in PLACERS.items()},
        LIMITER: {f"{limiter}AsyncTokenBucket": "token_bucket", f"{limiter}Classic": "classic"},
    }.get(key, {})


def _in_our_unit(key: str, value: Value, leaf: Leaf) -> Any:
    """The value in the unit and type of our setting."""
    if leaf.setting.unit == "ms" and isinstance(value, int):
        return value * next((factor for ending, factor in _MILLISECONDS if key.endswith(ending)), 1)
    if isinstance(value, str | bool):
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
