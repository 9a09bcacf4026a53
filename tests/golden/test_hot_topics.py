"""The sentences about hot bundles whose topics are known, which `make golden` rewrites."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pulsar_rebalancer.decisions.skip_and_certificate_texts import describe_intent
from strategies.dispatch_limits.hot_topic_text import hot_topic_text
from strategies.settings import DestinationSettings
from tests.golden.printed import compare
from tests.unit.test_asked_splits import hot
from tests.unit.test_hot_bundles import known, split
from tests.world.telemetry import MIB

ORDERS = "persistent://shop/eu/orders"


def about(topic: str, mib: float, **given: Any) -> str | None:
    made = known({0x100: mib}, **given)
    largest = replace(made.topics[0], name=topic)
    return hot_topic_text(replace(made, topics=(largest,)), 20.0)


def test_the_sentences_about_hot_bundles_are_those_of_the_file(rewrite: bool) -> None:
    full = DestinationSettings(overloaded_percent=40)
    said = {
        "not partitioned": about(ORDERS, 70, partitions=0, dispatch=(-1, -1)),
        "partitioned": about(f"{ORDERS}-partition-3", 70, partitions=8, dispatch=(500, 5 * MIB)),
        "only the figures are known": about(f"{ORDERS}-partition-3", 70),
        "small topics": about(ORDERS, 0.05, dispatch=(0, 0)),
        "idle": about(ORDERS, 0),
        "split between two hot topics": split(known({0x100: 40, 0x300: 20})).text,
        "split in the middle": split(
            known({0x100: 59, 0x900: 1}), algorithm="range_equally_divide"
        ).text,
        "split of unknown topics": split().text,
        "split whose child leaves": describe_intent(hot().passes().intents[0]),
        "child that stays": describe_intent(hot(2, destinations=full).passes().intents[0]),
    }
    parts = [f"# {case}\n{text}\n\n" for case, text in said.items()]
    compare(Path(__file__).with_name("hot_topics.txt"), parts, rewrite)
