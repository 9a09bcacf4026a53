"""Settings that decide when rounds yield to something else that moves bundles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from strategies.settings import Setting


@dataclass(frozen=True, slots=True)
class RivalSettings:
    """The default tolerates what a person does by hand in an hour, and is far below the pace of
    Pulsar's shedders, which unload every minute while they see a reason.
    """

    moves_per_hour: Annotated[
        int,
        Setting(
            "Bundles that something else may move within an hour before rounds yield to it; "
            "0 = rounds never yield",
            "bundles",
            ge=0,
            le=1_000_000,
        ),
    ] = 10
    calm_ms: Annotated[
        int,
        Setting(
            "Time without such a move after which rounds that yield act again; it doubles each "
            "time that they yield again within an hour, up to 8 times as long",
            "ms",
            ge=1_000,
            le=86_400_000,
        ),
    ] = 900_000
