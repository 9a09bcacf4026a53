"""`rebalancer advise`: its answers as text and JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.advise.advice import IN_A_ROW, Answers, advice
from pulsar_rebalancer.lab.advise.recorded_loads import prepared, read_loads
from pulsar_rebalancer.lab.recorded_release import columnar
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.recordings.columnar_reading import read_blocks
from strategies.errors import SettingsError, SinkError
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.engine import rules_of

#: Commands and bundles that the page lists; JSON has all.
_LISTED = 6


def answer(
    recording: Path,
    settings: Settings,
    *,
    days: float,
    cluster: str | None,
    as_json: bool,
    **question: Any,
) -> None:
    """Prints the advice. `question`: of `advice`. Raises SettingsError and SinkError."""
    with columnar(recording, settings.connections.wire, console.progress) as path:
        found = prepared(read_blocks(path), days)
        name = cluster or next(iter(found), "")
        if name not in found or (len(found) > 1 and cluster is None):
            names = f"{recording} has load reports of these clusters: {', '.join(found) or 'none'}"
            raise SettingsError([f"{names}; name one with --cluster"])
        loads = read_loads(read_blocks(path), name, found[name], settings.engine)
    if not loads.brokers or not loads.traffic.any():
        raise SinkError(f"{recording}: no broker has traffic in it; record while there is some.")
    one = advice(loads, rules_of(settings.engine), **question)
    text = headline(one, name)
    if as_json:
        console.print_json("advise", 1, {"cluster": name, "text": text, **one})
        return
    brokers, bundles = one["brokers"], one["bundles"]
    console.show(text, "", _brokers(one), "", _each(brokers["each"], one["at_most"]))
    _list(brokers["commands"])
    console.show("", _bundles(bundles, question["spread"]), "", _namespaces(bundles["namespaces"]))
    _list(bundles["commands"])
    console.show("", *_partitions(one["partitions"], question["per_partition"] / 1e6))
    console.show("", _when(**one["when"]), *(_launch(each) for each in one["launches"]))


def headline(one: Answers, name: str) -> str:
    """The advice about brokers in a sentence that needs no knowledge of the product."""
    needed, present, hours = one["brokers"]["needed"], one["brokers"]["present"], one["hours"]
    span = f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"
    span += "" if hours >= 24 else ", less than a day: record more before you remove one"
    number = "an unknown number of servers" if needed["found"] is None else ""
    more = (needed["found"] or present) - present
    step = f"{more} more" if more > 0 else f"{-more} may go" if more else "as many as it needs"
    return (
        f"{name} needs {number or counted(needed['found'], 'server')} (brokers) for its load, so "
        f"that none is above {100 * one['at_most']:.0f} % busy even if one fails; it has "
        f"{present}: {_number(needed) if number else step}. This is by the load of {span}."
    )


def _list(commands: Sequence[str]) -> None:
    """Prints lines to copy, which are neither wrapped nor indented."""
    rest = commands[_LISTED:]
    last = [f"# and {len(rest)} more, with --json"] if rest else []
    console.say(*[""][: len(commands)], *commands[:_LISTED], *last)


def _brokers(one: Answers) -> str:
    found, margin = one["brokers"], one["margin"]
    return (
        f"Brokers: the recorded load needs {_number(found['recorded'])}. With a margin as the "
        f"recording varies, {100 * margin['load']:.0f} % of load and {100 * margin['usage']:.1f} "
        f"points of usage: {_number(found['needed'])}. Twice the recorded load: "
        f"{_number(found['doubled'])}."
    )


def _number(found: Answers) -> str:
    if found["found"] is None:
        why = "a bundle is too large for most" if found["too_large"] else "no plan was found"
        return f"{counted(found['least'], 'broker')} or more ({why})"
    least = f"between {found['least']} and " if found["least"] < found["found"] else ""
    proof = "" if least else " (fewer cannot carry it: proven)"
    return f"{least}{counted(found['found'], 'broker')}{proof}"


def _each(each: Sequence[Answers], at_most: float) -> console.Sheet:
    words = {"tight": "without margin", "not-found": "no plan found"}
    dies = {True: "others up to {:.0f} %", False: "others above {:.0f} %, or no place found"}
    rows = [
        [
            one["broker"],
            f"{100 * one['peak']:.0f} %",
            str(one["bundles"]),
            words.get(one["may_go"], one["may_go"]),
            dies[one["dies"] is not None].format(100 * (one["dies"] or at_most)),
        ]
        for one in each
    ]
    heads = "broker", "peak", "bundles", "may go", "if it dies at the peak"
    sides: Sequence[console.Side] = ["left", "right", "right", "left", "left"]
    return console.Sheet([*zip(heads, sides, strict=True)], rows)


def _bundles(found: Answers, most: float) -> str:
    if found["splits"] == 0:
        return f"Bundles: enough; at mean load brokers can be within {found['spread']:.1f} points."
    split = f"after {counted(found['splits'] or 0, 'split')}, of load in halves, they can be"
    return (
        f"Bundles: at mean load brokers are {found['spread']:.1f} points apart at best (proven: "
        f"not below {found['bound']:.1f}); {split if found['splits'] else 'no split brings them'} "
        f"within {most:g}."
    )


def _namespaces(found: Sequence[Answers]) -> console.Sheet:
    rows = [
        [*(str(one[key]) for key in ("namespace", "bundles", "without_topics", "splits")), new]
        for one in found
        for new in ["?" if one["cuts"] is None else str(len(one["cuts"]) + 1)]
    ]
    heads = ["bundles", "without topics", "splits", "new, it needs"]
    return console.Sheet([("namespace", "left"), *((head, "right") for head in heads)], rows)


def _partitions(hot: Sequence[Answers], limit: float) -> Sequence[str]:
    found = [
        f"Partitions: {one['bundle']} takes in {one['received'] / 1e6:.1f} MB/s in one topic "
        f"(pulsar-admin topics list {namespace} --bundle {range_}): pulsar-admin topics "
        f"update-partitioned-topic TOPIC --partitions {one['partitions']}"
        if one["partitions"]
        else f"Partitions: {one['bundle']} takes in {one['received'] / 1e6:.1f} MB/s in "
        f"{one['topics']} topics, more than a broker carries: split it, or find the topic"
        for one in hot[:_LISTED]
        for namespace, _, range_ in [one["bundle"].rpartition("/")]
    ]
    return found or [
        f"Partitions: no bundle of one topic takes in more than {limit:g} MB/s, or what a broker "
        "carries; topics of other bundles are not recorded."
    ]


def _when(loads: dict[str, float], best: int | None, part: float | None) -> str:
    if best is None or part is None:
        least = min(loads, key=loads.__getitem__)
        return (
            f"When: {len(loads)} of 24 hours are recorded, of which {least}:00 UTC has the least "
            "load; record a day to know when moves cost least."
        )
    return (
        f"When: moves cost least from {best:02d}:00 to {(best + IN_A_ROW) % 24:02d}:00 UTC, at "
        f"{100 * part:.0f} % of the mean load."
    )


def _launch(one: Answers) -> str:
    parts = counted(one["partitions"], "partition")
    command = f"{one['command']}; its fullest has {one['in_fullest']} of {parts}"
    few = f"more than {parts} are needed to balance {one['namespace']}"
    brokers = f"the cluster then needs {_number(one['brokers'])}."
    return f"Launch: {command if one['command'] else few}; {brokers}"
