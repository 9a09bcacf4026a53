"""Finds and reads scenario files: those of the project by name, others by path."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pulsar_rebalancer.lab.simulation.scenarios.error_sentences import complaints
from pulsar_rebalancer.lab.simulation.scenarios.schema import Parameters, Scenario
from pulsar_rebalancer.lab.simulation.scenarios.wave_noise_limit_schema import StrictModel
from pulsar_rebalancer.lab.simulation.waves import recorded_factors
from strategies.errors import SettingsError

FOLDER = Path(__file__).parent
#: Keys that a scenario either takes from its parameters file or defines itself, as a whole.
_SHARED = ("machines", "noise", "placed_at_lookup")


@dataclass(frozen=True, slots=True)
class Named:
    """A scenario, its name, and the comment at the start of its file."""

    name: str
    story: str
    scenario: Scenario


def names() -> tuple[str, ...]:
    """The scenarios of the project: published cards first, ordered by number."""
    return tuple(sorted([path.stem for path in FOLDER.glob("*.toml")], key=_in_order))


def published() -> tuple[str, ...]:
    """The scenarios that repeat a published experiment."""
    return tuple(name for name in names() if load(name).scenario.card is not None)


def load(name: str, changes: Mapping[str, Any] | None = None) -> Named:
    """The scenario with this name or path. `changes`: top-level keys that replace the file's.

    Raises SettingsError with all errors, each with its place.
    """
    path = FOLDER / f"{name}.toml" if "/" not in name and not name.endswith(".toml") else Path(name)
    if not path.is_file():
        raise SettingsError([_nowhere(name, path)])
    text = _text(path)
    scenario = _scenario(path, {**_tree(path, text), **(changes or {})})
    late = [one.minute for one in scenario.happenings if one.minute >= scenario.minutes]
    if late and "minutes" not in (changes or {}):
        raise SettingsError(
            [
                f"{path}: happenings: minute {late[0]:g} is not before the scenario's end, "
                f"minute {scenario.minutes}"
            ]
        )
    return Named(path.stem, _story(text), scenario)


def _nowhere(name: str, path: Path) -> str:
    if path.parent != FOLDER:
        return (
            f"{name}: no such file; write one (see docs/SIMULATION.md), or name a scenario of "
            "rebalancer simulate --list"
        )
    close = get_close_matches(name, names(), n=1)
    return f"{name}: no such scenario" + (
        f"; did you mean {close[0]}?"
        if close
        else "; rebalancer simulate --list shows the scenarios of the project"
    )


def _in_order(name: str) -> tuple[bool, int, str]:
    digits = name[1:].partition("-")[0]
    is_card = name.startswith("e") and digits.isdigit()
    return not is_card, int(digits) if is_card else 0, name


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(
            [f"{path}: not UTF-8 text ({error.reason} at byte {error.start})"]
        ) from error


def _tree(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{path}: not valid TOML: {error}"]) from error


def _story(text: str) -> str:
    """The comment lines at the start of a file."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    return " ".join(line for line in lines if line)


def _scenario(path: Path, tree: dict[str, Any]) -> Scenario:
    shared = tree.get("parameters")
    if isinstance(shared, str):
        tree = _with_parameters(path, tree, shared)
    tree = with_recorded(path, tree)
    try:
        return Scenario.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(_complaints(path, error, Scenario)) from error


def _with_parameters(path: Path, tree: dict[str, Any], shared: str) -> dict[str, Any]:
    """The scenario with its shared parameters. A key that both define is an error, so neither
    overrides the other.
    """
    source = next(
        (
            folder / f"{shared}.toml"
            for folder in (path.parent / "parameters", FOLDER / "parameters")
            if (folder / f"{shared}.toml").is_file()
        ),
        None,
    )
    if source is None:
        raise SettingsError(
            [f"{path}: parameters: no {shared}.toml in {path.parent / 'parameters'}"]
        )
    try:
        parameters = Parameters.model_validate(_tree(source, _text(source)))
    except ValidationError as error:
        raise SettingsError(_complaints(source, error, Parameters)) from error
    twice = [key for key in _SHARED if key in tree]
    if twice:
        raise SettingsError(
            [
                f"{path}: {key}: also set by parameters = {shared!r}; leave out one of the two"
                for key in twice
            ]
        )
    flows = tree.get("traffic")
    if isinstance(flows, list):
        tree = tree | {
            "traffic": [
                {**parameters.traffic.get(str(flow.get("name")), {}), **flow}
                if isinstance(flow, dict)
                else flow
                for flow in flows
            ]
        }
    given = parameters.model_dump()
    own = tree.get("settings")
    if isinstance(own, dict):
        tree = tree | {"settings": {**parameters.settings, **own}}
    elif own is None:
        tree = tree | {"settings": parameters.settings}
    return tree | {key: given[key] for key in _SHARED}


def _complaints(path: Path, error: ValidationError, form: type[StrictModel]) -> list[str]:
    return [f"{path}: {complaint}" for complaint in complaints(error, form)]


def with_recorded(path: Path, tree: dict[str, Any]) -> dict[str, Any]:
    """The scenario with the factors of all its trace files. Raises SettingsError with file and
    line.
    """
    flows = tree.get("traffic")
    if not isinstance(flows, list | tuple):
        return tree
    return tree | {
        "traffic": [_flow(path, flow) if isinstance(flow, dict) else flow for flow in flows]
    }


def _flow(path: Path, flow: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _wave(path, value)
        if key in ("wave", "consumers") and isinstance(value, dict)
        else value
        for key, value in flow.items()
    }


def _wave(path: Path, wave: dict[str, Any]) -> dict[str, Any]:
    file = wave.get("file")
    if not isinstance(file, str):
        return wave
    if "factors" in wave:
        raise SettingsError([f"{path}: a trace has factors = [...] or file = {file!r}, not both"])
    column = wave.get("column")
    return wave | {
        "factors": recorded_factors(path.parent / file, column if isinstance(column, str) else None)
    }
