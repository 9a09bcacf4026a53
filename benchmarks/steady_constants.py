"""The internal constants of SteadyShedder, and runs in which one of them has another value."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

from strategies.shedding.steady import settings
from strategies.shedding.steady.settings import PROFILES, Profile

_PACKAGE = "strategies.shedding.steady"
_FACTORS = (0.7, 1.3)
#: Module → constants. Numbers of samples are not among them: they are small whole numbers.
_NAMED = {
    "load_samples": ("SAME_LEVEL", "LEVEL_WEIGHT", "JUMP", "STANDSTILL", "MIXED", "STEP", "ALIKE"),
    "settings": ("CROWD_POINTS",),
    "lasting_gaps": (
        "PARTLY_FACTOR",
        "PARTLY",
        "SHOWN",
        "EPISODE_MS",
        "OWN_MOVES_MS",
        "FOREIGN",
    ),
    "learned_load_cost": (
        "NOISE",
        "LASTING",
        "PRIOR_BASE",
        "PRIOR_WEIGHT",
        "PRIOR_RATIO",
        "SCATTER",
        "MOST_UNSURE",
        "HIGHEST_BASE",
        "IDLE",
        "CLEARLY",
        "LITTLE",
    ),
    "cheapest_plan": (
        "MOST_LEFT",
        "LEAST_CUT",
        "_MOVED_COST",
        "_MOVE_COST",
        "_WIDE_COST",
        "_FAIR_SHARE",
        "_THIN_UP_TO",
        "_CROWD",
    ),
    "greedy_move_search": ("WORTH", "_NEARLY_PERFECT", "_LEAST_GAIN", "_PAUSE"),
    "effect_and_rest_of_last_plan": ("USELESS", "REST_MS", "CAREFUL"),
    "persistence_of_load": (
        "NOISE",
        "UNUSUAL",
        "STANDING",
        "FALLEN",
        "SURE",
        "LEFT",
        "NEAR_LIMIT",
    ),
    "steady_round": (
        "URGENT_GAP",
        "URGENT_REST",
        "WORTH_OF_LAST",
        "PAUSE_MS",
        "LONGEST_PAUSE_MS",
        "SHOWN_MS",
    ),
}


#: Fields of a profile that gaps are compared with before anything has moved.
_EVIDENCE = ("profile.plain", "profile.huge", "profile.lasting")
#: Constants of costs that only plans use.
_OF_PLANS = ("learned_load_cost.NOISE", "learned_load_cost.LASTING")


@dataclass(frozen=True, slots=True)
class Change:
    """`name`: `module.NAME`, or `profile.field` of the default profile."""

    name: str
    value: float

    @property
    def is_evidence(self) -> bool:
        """Whether a round uses it before it has found a gap; the others shape plans."""
        before = ("load_samples.", "settings.", "lasting_gaps.", "learned_load_cost.", *_EVIDENCE)
        return self.name.startswith(before) and self.name not in _OF_PLANS


def _changes() -> Iterator[Change]:
    for field in fields(Profile):
        usual = getattr(PROFILES["default"], field.name)
        if isinstance(usual, bool):
            continue
        yield from (Change(f"profile.{field.name}", factor * usual) for factor in _FACTORS)
    for module, names in _NAMED.items():
        for name in names:
            usual = getattr(import_module(f"{_PACKAGE}.{module}"), name)
            yield from (Change(f"{module}.{name}", factor * usual) for factor in _FACTORS)


CONSTANTS = tuple(_changes())


@contextmanager
def changed(change: Change | None) -> Iterator[None]:
    """Runs with the constant at its other value, in every module that uses it."""
    if change is None:
        yield
        return
    place, name = change.name.split(".")
    if place == "profile":
        name, usual = "PROFILES", settings.PROFILES
        limits: dict[str, Any] = {change.name.split(".")[1]: change.value}
        default = replace(PROFILES["default"], **limits)
        value: object = {**PROFILES, "default": default}
    else:
        usual, value = getattr(import_module(f"{_PACKAGE}.{place}"), name), change.value
    users = [
        module
        for path, module in list(sys.modules.items())
        if path.startswith(_PACKAGE) and getattr(module, name, None) is usual
    ]
    try:
        for module in users:
            setattr(module, name, value)
        yield
    finally:
        for module in users:
            setattr(module, name, usual)
