"""Settings of SteadyShedder, and the limits behind each profile of `steadiness`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log
from types import MappingProxyType
from typing import Annotated, Literal

from strategies.settings import Setting

Steadiness = Literal["background", "default", "tight"]

#: The extremes of many noisy brokers lie further apart: points per ln(brokers / this number).
CROWD_POINTS, CROWD_FROM = 2.0, 8
#: Of more brokers than this, plans are long: one cost of load, one broker at each end at a time,
#: and brokers without a gap between them stay as they are.
MANY = 60


@dataclass(frozen=True, slots=True)
class SteadySettings:
    """Settings of SteadyShedder."""

    steadiness: Annotated[
        Steadiness,
        Setting(
            "How uneven brokers may stay: `background` acts on large gaps only, `tight` also on "
            "small ones and moves more"
        ),
    ] = "default"
    rest_minutes: Annotated[
        float,
        Setting("Time after a move during which a bundle stays where it is", "min", ge=0, le=10080),
    ] = 60.0
    sample_seconds: Annotated[
        float,
        Setting(
            "Reports closer together than this count as one sample; at least the brokers' "
            "statsUpdateFrequencyInSecs",
            "s",
            ge=1,
            le=3600,
        ),
    ] = 60.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The limits of one profile, in points of usage (percent of a broker).

    `plain`, `huge`, `lasting`: gap that counts in three samples, in two, and in the block means of
    twenty; `follow_up`: gap that counts once after the first moves of an episode; `band`: width of
    the band of usages that a plan aims at; `rest`: part of the rest time for which a moved bundle
    stays where it is (it does not return to a broker that it left before all of it is over);
    `forecasts`: where load comes and goes, forecasts decide.
    """

    plain: float
    huge: float
    lasting: float
    follow_up: float
    band: float
    rest: float = 1.0
    forecasts: bool = True

    def widened(self, points: float) -> "Profile":
        """The profile with limits larger by this many points."""
        return replace(
            self,
            plain=self.plain + points,
            huge=self.huge + points,
            lasting=self.lasting + points,
            follow_up=self.follow_up + points,
            band=self.band + points,
        )

    def among(self, brokers: int) -> "Profile":
        """The profile in a cluster of this number of brokers. A follow-up for many of them would
        move what no other test finds.
        """
        profile = self.widened(crowd_points(brokers))
        return replace(profile, follow_up=profile.lasting) if brokers > MANY else profile

    def careful(self, caution: float) -> "Profile":
        """The profile with limits this many times as large, and the same band."""
        return replace(
            self,
            plain=self.plain * caution,
            huge=self.huge * caution,
            lasting=self.lasting * caution,
            follow_up=self.follow_up * caution,
        )


PROFILES: Mapping[Steadiness, Profile] = MappingProxyType(
    {
        "background": Profile(plain=25.0, huge=40.0, lasting=18.0, follow_up=12.0, band=6.0),
        "default": Profile(plain=14.5, huge=30.0, lasting=14.0, follow_up=8.0, band=3.0),
        "tight": Profile(
            2.2, huge=10.0, lasting=1.8, follow_up=1.5, band=1.0, rest=1 / 15, forecasts=False
        ),
    }
)


def crowd_points(brokers: int) -> float:
    """What the limits of gaps and the width of the band grow by in a large cluster, in points."""
    if brokers <= CROWD_FROM:
        return 0.0
    # The last bit of a logarithm depends on the processor.
    return round(CROWD_POINTS * log(brokers / CROWD_FROM), 9)
