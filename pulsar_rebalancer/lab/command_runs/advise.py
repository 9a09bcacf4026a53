"""`rebalancer advise`: its answers as text and JSON."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from pulsar_rebalancer.cli import console
from pulsar_rebalancer.lab.advise.advice import IN_A_ROW, Answers, advice
from pulsar_rebalancer.lab.advise.recorded_loads import prepared, read_loads
from pulsar_rebalancer.lab.command_runs.advice_page import AdviceSection, page_of
from pulsar_rebalancer.lab.recorded_release import columnar
from pulsar_rebalancer.lab.report.page import write_page
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.recordings.columnar_reading import read_blocks
from strategies.errors import SettingsError, SinkError
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.engine import rules_of

#: Commands and bundles that the terminal lists; JSON and page have all.
_LISTED = 6


def answer(
    recording: Path,
    settings: Settings,
    *,
    days: float,
    cluster: str | None,
    html: Path | None,
    as_json: bool,
    **question: Any,
) -> None:
    """Prints the advice. `html`: where its page goes; `question`: of `advice`. Raises SettingsError
    and SinkError.
    """
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
    text, parts = headline(one, name), _sections(one, question)
    if as_json:
        console.print_json("advise", 1, {"cluster": name, "text": " ".join(text), **one})
    else:
        _show(text, parts)
    if html is not None:
        made_by = f"rebalancer advise {recording.name}"
        write_page(html, page_of(text, parts, one, loads, name=name, made_by=made_by))
        console.progress(f"written: {html}")


def headline(one: Answers, name: str) -> tuple[str, str]:
    """The advice about brokers in a sentence that needs no knowledge of the product, and by what
    load that is.
    """
    needed, present, hours = one["brokers"]["needed"], one["brokers"]["present"], one["hours"]
    span = f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"
    span += "" if hours >= 24 else ", less than a day: record more before you remove one"
    more = (needed["found"] or present) - present
    step = f"{more} must be added" if more > 0 else f"{-more or 'none'} can be removed"
    return (
        f"The Pulsar cluster {name} has {counted(present, 'server')} (brokers) and needs "
        f"{needed['found'] or _number(needed)} to stay below {100 * one['at_most']:.0f} % busy "
        f"even if one of them fails: {step}.",
        f"This is by the load of {span}.",
    )


def _sections(one: Answers, question: Answers) -> list[AdviceSection]:
    brokers, bundles = one["brokers"], one["bundles"]
    return [
        AdviceSection(
            "Brokers",
            "Each number is enough even if one of them fails; each yes is for one broker alone.",
            [_needed(brokers, one["margin"]), _each(brokers["each"], one["at_most"])],
            brokers["commands"],
        ),
        AdviceSection(
            "Bundles",
            "A bundle is a group of topics that moves as a whole. "
            + _bundles(bundles, question["spread"]),
            [_namespaces(bundles["namespaces"])],
            bundles["commands"],
        ),
        _partitions(one["partitions"], question["per_partition"] / 1e6),
        AdviceSection("When", _when(**one["when"])),
        *map(_launch, one["launches"]),
    ]


def _show(text: Sequence[str], parts: Sequence[AdviceSection]) -> None:
    console.show(" ".join(text))
    for part in parts:
        console.show("", f"{part.title}: {part.text}")
        for sheet in part.sheets:
            console.show("", sheet)
        _list(part.commands)


def _list(commands: Sequence[str]) -> None:
    """Prints lines to copy, which are neither wrapped nor indented."""
    rest = commands[_LISTED:]
    last = [f"# and {len(rest)} more, with --json or --html"] if rest else []
    console.say(*[""][: len(commands)], *commands[:_LISTED], *last)


def _needed(found: Answers, margin: Answers) -> console.Sheet:
    varied = f"{100 * margin['load']:.0f} % of load and {100 * margin['usage']:.1f} points of usage"
    rows = [
        ["as recorded", _number(found["recorded"])],
        [f"with a margin, as the recording varies: {varied}", _number(found["needed"])],
        ["twice as recorded", _number(found["doubled"])],
    ]
    return console.Sheet([("load", "left"), ("needs", "left")], rows)


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
            words.get(one["may_go"], one["may_go"]),
            f"{100 * one['peak']:.0f} %",
            str(one["bundles"]),
            dies[one["dies"] is not None].format(100 * (one["dies"] or at_most)),
        ]
        for one in each
    ]
    columns: Sequence[tuple[str, console.Side]] = [
        ("broker", "left"),
        ("may go", "left"),
        ("peak by load", "right"),
        ("bundles", "right"),
        ("if it dies at the peak", "left"),
    ]
    return console.Sheet(columns, rows)


def _bundles(found: Answers, most: float) -> str:
    if found["splits"] == 0:
        near = f"within {found['spread']:.1f} points of usage"
        return f"There are enough: at mean load brokers can be {near} of each other."
    split = f"after {counted(found['splits'] or 0, 'split')}, of load in halves, they can be"
    return (
        f"At mean load brokers are {found['spread']:.1f} points apart at best (proven: "
        f"not below {found['bound']:.1f}); {split if found['splits'] else 'no split brings them'} "
        f"within {most:g}."
    )


def _namespaces(found: Sequence[Answers]) -> console.Sheet:
    rows = [
        [*(str(one[key]) for key in ("namespace", "bundles", "without_topics", "splits")), new]
        for one in found
        for new in ["?" if one["cuts"] is None else str(len(one["cuts"]) + 1)]
    ]
    heads = ["bundles", "without topics", "needs splits", "if created again"]
    return console.Sheet([("namespace", "left"), *((head, "right") for head in heads)], rows)


def _partitions(hot: Sequence[Answers], limit: float) -> AdviceSection:
    rows = [
        [
            one["bundle"],
            str(one["topics"]),
            f"{one['received'] / 1e6:.1f} MB/s",
            f"{one['partitions']} partitions" if one["partitions"] else "a split, or the hot topic",
        ]
        for one in hot
    ]
    lists = [
        f"pulsar-admin topics list {quote(namespace)} --bundle {quote(range_)}"
        for namespace, _, range_ in (one["bundle"].rpartition("/") for one in hot)
    ]
    columns: Sequence[tuple[str, console.Side]] = [
        ("bundle", "left"),
        ("topics", "right"),
        ("takes in", "right"),
        ("needs", "left"),
    ]
    if not hot:
        text = f"No bundle of one topic takes in more than {limit:g} MB/s, or what a broker carries"
        return AdviceSection("Partitions", f"{text}; topics of other bundles are not recorded.")
    return AdviceSection(
        "Partitions",
        f"These take in more than {limit:g} MB/s in one topic, or more than a broker carries. Look "
        "for the topic, then: pulsar-admin topics update-partitioned-topic TOPIC --partitions N",
        [console.Sheet(columns, rows)],
        lists,
    )


def _when(loads: dict[str, float], best: int | None, part: float | None) -> str:
    if best is None or part is None:
        least = min(loads, key=loads.__getitem__)
        return (
            f"{len(loads)} of 24 hours are recorded, of which {least}:00 UTC has the least "
            "load; record a day to know when moves cost least."
        )
    return (
        f"Moves cost least from {best:02d}:00 to {(best + IN_A_ROW) % 24:02d}:00 UTC, at "
        f"{100 * part:.0f} % of the mean load."
    )


def _launch(one: Answers) -> AdviceSection:
    parts = counted(one["partitions"], "partition")
    enough = f"takes {counted(one['bundles'] or 0, 'bundle')}; the fullest has {one['in_fullest']}"
    few = "needs more partitions to be balanced"
    return AdviceSection(
        "Launch",
        f"{one['namespace']} with {parts} {enough if one['command'] else few}. The cluster then "
        f"needs {_number(one['brokers'])}.",
        commands=[one["command"]] if one["command"] else [],
    )
