"""Sources of values: a TOML file, the environment, flags. Each value keeps its origin; nothing is
checked here. Values in [clusters.NAME] override [pulsar] for that cluster.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_origin

from pulsar_rebalancer.settings.setting_paths import REMOVED, Leaf
from strategies.errors import SettingsError

Kind = Literal["default", "file", "env", "flag"]

_PREFIX = "REBALANCER_"
#: Environment variables that are read elsewhere.
_RESERVED = frozenset({"REBALANCER_DEBUG", "REBALANCER_CONFIG"})


_TABLE = "clusters."


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value from a source; `source` names the file, variable or flag."""

    path: str
    value: Any
    kind: Kind
    source: str


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One setting with its effective value and source (`source`: file, variable or flag; the
    Pulsar release for a default that depends on it, empty for other defaults).
    """

    leaf: Leaf
    value: Any
    kind: Kind
    source: str


def from_file(path: Path) -> list[Assignment]:
    """All values of a TOML file. SettingsError names the file and the unreadable line."""
    return [
        Assignment(dotted, value, "file", str(path))
        for dotted, value in flattened(_read_toml(path))
    ]


def from_environment(
    environment: Mapping[str, str], leaves: Sequence[Leaf]
) -> tuple[list[Assignment], list[str]]:
    """Values of `REBALANCER_SECTION__KEY` variables, and complaints about unknown variables of that
    form.
    """
    by_env = {leaf.env: leaf for leaf in leaves}
    tables = {leaf.env.removeprefix(_PREFIX).split("__")[0] for leaf in leaves}
    found, complaints = [], []
    for name in sorted(environment):
        leaf, path = by_env.get(name), name.removeprefix(_PREFIX).replace("__", ".").lower()
        if leaf is not None or (name.startswith(_PREFIX) and path in REMOVED):
            found.append(Assignment(path, parse(environment[name], leaf), "env", name))
        elif name.startswith(_PREFIX) and name not in _RESERVED and _means_a_setting(name, tables):
            hint = did_you_mean(name, by_env, 0.75, _PREFIX)
            complaints.append(f"{path}: the environment variable {name} sets nothing{hint}")
    return found, complaints


def from_flags(flags: Sequence[str], leaves: Sequence[Leaf]) -> tuple[list[Assignment], list[str]]:
    """Values of `--set path=value` flags, and complaints about flags of another form."""
    by_path = {leaf.path: leaf for leaf in leaves}
    found, complaints = [], []
    for flag in flags:
        path, equals, text = flag.partition("=")
        if equals and path:
            found.append(Assignment(path, parse(text, by_path.get(path)), "flag", f"--set {path}"))
        else:
            complaints.append(
                f"{flag or '(empty)'}: write it as path=value, for example round.interval_ms=30000"
            )
    return found, complaints


def parse(text: str, leaf: Leaf | None) -> Any:
    """A value written in a shell: plain text for texts, otherwise TOML; text that is not TOML stays
    text.
    """
    if leaf is not None and (leaf.kind is str or get_origin(leaf.kind) is Literal):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, KeyError):
        return text


def _means_a_setting(name: str, tables: set[str]) -> bool:
    rest = name.removeprefix(_PREFIX)
    return "__" in rest or any(rest.startswith(f"{table}_") for table in tables)


def did_you_mean(word: str, known: Iterable[str], cutoff: float, prefix: str = "") -> str:
    """`; did you mean avg?`, to append to a complaint; empty if no known word is close. `prefix`:
    of all words, and not compared.
    """
    close = get_close_matches(
        word.removeprefix(prefix),
        [other.removeprefix(prefix) for other in known],
        n=1,
        cutoff=cutoff,
    )
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            [
                f"{path}: cannot be read ({error.strerror}); check the path, or the variable "
                "REBALANCER_CONFIG"
            ]
        ) from error
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError([f"{path}:{line}: not UTF-8; save the file as UTF-8"]) from error
    except RecursionError as error:
        raise SettingsError([f"{path}:1: nested too deeply to be settings"]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_syntax_complaint(path, data, str(error))]) from error


def _syntax_complaint(path: Path, data: bytes, message: str) -> str:
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if found is None:
        return f"{path}:1: {message}"
    line = found[1] or data.count(b"\n") + 1
    return f"{path}:{line}: not TOML: {message[: found.start()]}"


def flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of every key below a table."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def split_by_cluster(
    given: Sequence[Assignment],
) -> tuple[list[Assignment], dict[str, list[Assignment]]]:
    """Splits values into common ones and those of each named cluster, the latter with paths of
    [pulsar].
    """
    common: list[Assignment] = []
    named: dict[str, list[Assignment]] = {}
    for one in given:
        name, _, key = one.path.removeprefix(_TABLE).rpartition(".")
        if one.path.startswith(_TABLE) and name:
            named.setdefault(name, []).append(replace(one, path=f"pulsar.{key}"))
        elif one.path.startswith(_TABLE) and one.value == {}:
            named.setdefault(key, [])
        else:
            common.append(one)
    for name, own in named.items():
        if not any(one.path == "pulsar.cluster" for one in own):
            own.insert(0, Assignment("pulsar.cluster", name, "file", f"[clusters.{name}]"))
    return common, named


def named_complaint(name: str, complaint: str) -> str:
    """A complaint about a cluster's settings, with the path where the value was written."""
    return (
        f"{_TABLE}{name}.{complaint.removeprefix('pulsar.')}"
        if complaint.startswith("pulsar.")
        else complaint
    )
