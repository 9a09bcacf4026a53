"""A reason why nothing moves that comes from a setting names it with its value."""

import re
from pathlib import Path

import pytest

from pulsar_rebalancer.settings.merge_sources import load

SCENARIOS = Path(__file__).parents[1] / "golden" / "scenarios"
NAMED = re.compile(r"([a-z_]+(?:\.[a-z_]+)+) = (\S+?)(?=[\s),;]|$)")


def reasons(code: str) -> list[str]:
    pattern = re.compile(rf"left alone .*? \[{code}\]: (.*)")
    return [
        text for file in SCENARIOS.iterdir() for text in pattern.findall(file.read_text("utf-8"))
    ]


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        ("too-little-traffic", {"avg.max_unload", "avg.min_msg_rate", "avg.min_throughput"}),
        ("too-little-traffic", {"threshold.min_throughput_mib"}),
        ("waiting-for-hits", {"avg.hit_count_low", "avg.hit_count_high"}),
        ("close-together", {"avg.low_threshold"}),
        ("below-threshold", {"threshold.threshold_percent"}),
        ("not-overloaded", {"overload.threshold_percent"}),
        ("even", {"uniform.rate_difference_percent", "uniform.throughput_ratio"}),
        ("even", {"transfer.target_std"}),
        ("would-overload", {"placement.overloaded_percent"}),
        ("cooling-down", {"round.cool_down_ms"}),
    ],
)
def test_a_reason_names_the_settings_it_comes_from(code: str, settings: set[str]) -> None:
    found = [
        {path.removeprefix("shedding.") for path, _ in NAMED.findall(one)} for one in reasons(code)
    ]
    assert settings in found


def test_every_setting_of_a_reason_exists_and_can_be_given_as_it_stands_there() -> None:
    texts = "\n".join(file.read_text("utf-8") for file in SCENARIOS.iterdir())
    named = {*NAMED.findall(texts)}
    assert len(named) > 12
    load(flags=[f"{path}={value}" for path, value in sorted(named)])
