"""`rebalancer advise`: its answers as text and JSON."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from pulsar_rebalancer.cli import console, options
from pulsar_rebalancer.cli.by_hand import MoveOptions, ask_moves, present_session
from pulsar_rebalancer.cli.service_log import Line, end, log_of, measured
from pulsar_rebalancer.lab.advise.advice import (
    DAY_HOURS,
    IN_A_ROW,
    Answers,
    advice,
    gauges,
)
from pulsar_rebalancer.lab.advise.recorded_loads import RecordedLoads, prepared, read_loads
from pulsar_rebalancer.lab.command_runs.advice_page import AdviceSection, page_of
from pulsar_rebalancer.lab.recorded_release import columnar, columnar_topic
from pulsar_rebalancer.lab.report.page import write_page
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import stopping, wall_clock_ms
from sinks.metrics.service_metrics import AdviceMetrics
from sinks.recordings.columnar_reading import read_blocks
from strategies.errors import RebalancerError, SettingsError, SinkError
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.engine import rules_of

#: Commands and bundles that the terminal lists; JSON and page have all.
_LISTED = 6
#: Longest time (s) that an advice may take until the process counts as not working.
_STILL_S = 3_600.0
#: The name of a cluster, the advice on it, and the loads that this comes from.
_Advised = tuple[str, Answers, RecordedLoads]


def answer(
    recording: Path | None,
    settings: Settings,
    *,
    days: float,
    cluster: str | None,
    html: Path | None,
    every_h: float | None,
    ask: bool,
    by: str | None,
    yes: bool,
    no_wait: bool,
    as_json: bool,
    debug: bool,
    **question: Any,
) -> None:
    """Prints the advice; without a recording, by the telemetry topic. `html`: where its page goes;
    `every_h`: repeats it after this time (hours) and serves its gauges; `ask`: asks for the moves
    of the plan as `by`, `yes` and `no_wait` as `MoveOptions`; `question`: of `advice`. Raises
    SettingsError, SinkError, UnknownSubject, IntentError, typer.Exit.
    """
    if ask and (every_h is not None or question["plan_for"] is None):
        raise SettingsError(["--ask: needs --plan-for peak, and is for once, without --every"])
    advise = partial(_advise, recording, settings, days, cluster, question)
    show = partial(_show, question, recording, html, as_json)
    if every_h is not None:
        _repeat(settings, 3600 * every_h, advise, show, debug=debug)
        return
    found = advise()
    name, one, _ = found
    moves = [(each["bundle"], each["to"]) for each in one["peak"]["moves"]] if ask else []
    if not (as_json and moves):
        show(found)
    if moves:
        with present_session(settings, name, by, one["peak"]["reason"]) as (session, present):
            ask_moves(session, present, moves, MoveOptions(yes, no_wait, as_json))


def _advise(
    recording: Path | None,
    settings: Settings,
    days: float,
    cluster: str | None,
    question: Mapping[str, Any],
) -> _Advised:
    connections, since_ms = settings.connections, wall_clock_ms() - round(days * 86_400_000)
    source = (
        columnar_topic(connections, since_ms)
        if recording is None
        else columnar(recording, connections.wire, console.progress)
    )
    origin = recording or connections.topics.telemetry
    with source as path:
        found = prepared(read_blocks(path), days)
        if not found and recording is None:
            raise options.nothing_found("load report", settings)
        if not found:
            raise SinkError(f"{origin}: no broker's load report is in it; record while brokers run")
        name = cluster or next(iter(found), "")
        if name not in found or (len(found) > 1 and cluster is None):
            names = f"{origin} has load reports of these clusters: {', '.join(found)}"
            raise SettingsError([f"{names}; name one with --cluster"])
        loads = read_loads(read_blocks(path), name, found[name], settings.engine)
    if not loads.shows_cost:
        raise SinkError(
            f"{origin}: no broker has traffic and usage in it; repeat this when some has."
        )
    return name, advice(loads, rules_of(settings.engine), **question), loads


def _repeat(
    settings: Settings,
    every_s: float,
    advise: Callable[[], _Advised],
    show: Callable[[_Advised], None],
    *,
    debug: bool,
) -> None:
    """Advises again and again until a signal. An error ends it before the first advice only."""
    log, cluster = log_of(settings), ""
    with (
        stopping() as stop,
        log.errors(debug=debug),
        measured(
            settings,
            log,
            stop,
            AdviceMetrics,
            still_s=every_s + _STILL_S,
            ready_after="an advice",
        ) as metrics,
    ):
        while not stop.is_set():
            try:
                found = advise()
                cluster, one, _ = found
                metrics.advised(cluster, gauges(one))
                show(found)
            except RebalancerError as error:
                if not cluster:
                    raise
                metrics.advised(cluster, {"removable_brokers": 0})
                log.write(Line(f"no advice, again in {every_s:g} s: {error}", "failed", "warning"))
            metrics.liveness.turning(stop.wait)(every_s)
    end(log, stop.by)


def _show(
    question: Mapping[str, Any],
    recording: Path | None,
    html: Path | None,
    as_json: bool,
    found: _Advised,
) -> None:
    """Prints the advice, and writes its page if it is wanted."""
    name, one, loads = found
    text, parts = headline(one, name), _sections(one, question)
    if as_json:
        console.print_json("advise", 1, {"cluster": name, "text": " ".join(text), **one})
    else:
        _print(text, parts)
    if html is not None:
        made_by = f"rebalancer advise {recording.name if recording else ''}".rstrip()
        write_page(html, page_of(text, parts, one, loads, name=name, made_by=made_by))
        console.progress(f"written: {html}")


def headline(one: Answers, name: str) -> tuple[str, str]:
    """The advice about brokers in a sentence that needs no knowledge of the product, and by what
    load that is.
    """
    needed, present, hours = one["brokers"]["needed"], one["brokers"]["present"], one["hours"]
    span = f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} hours"
    span += "" if hours >= DAY_HOURS else ", less than a day: record more before you remove one"
    more = (needed["found"] or present) - present
    step = f"{more} must be added" if more > 0 else f"{-more or 'none'} can be removed"
    return (
        f"The Pulsar cluster {name} has {counted(present, 'server')} (brokers) and needs "
        f"{needed['found'] or _number(needed)} to stay below {100 * one['at_most']:.0f} % busy "
        f"even if one of them fails: {step}.",
        f"It follows from the load of {span}.",
    )


def _sections(one: Answers, question: Mapping[str, Any]) -> list[AdviceSection]:
    brokers, bundles = one["brokers"], one["bundles"]
    enough = (
        "Each number includes one broker that may fail. Each yes holds for that broker alone. Load "
        "is what traffic explains: short spikes of CPU beyond it do not count."
    )
    if brokers["together"] and len(brokers["each"]) > 1:
        enough += f" With the margin, together may go: {', '.join(brokers['together'])}."
    if brokers["removed"]:
        enough += f" The commands move bundles, then drain {', '.join(brokers['removed'])}."
    return [
        AdviceSection(
            "Brokers",
            enough,
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
        *([] if one["peak"] is None else [_peak(one["peak"])]),
    ]


def _print(text: Sequence[str], parts: Sequence[AdviceSection]) -> None:
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
        [f"with a margin for growth and noise: {varied}", _number(found["needed"])],
        ["twice this load", _number(found["doubled"])],
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
    mean = "mean load, isolation policies aside," if found["policies_aside"] else "mean load"
    if found["splits"] == 0:
        near = f"within {found['spread']:.1f} points of usage of each other"
        return f"The bundles are enough: at {mean} some placement has all brokers {near}."
    split = f"after {counted(found['splits'] or 0, 'split')}, of load in halves, they can be"
    return (
        f"At {mean} brokers are {found['spread']:.1f} points apart at best (proven: "
        f"not below {found['bound']:.1f}); {split if found['splits'] else 'no split brings them'} "
        f"within {most:g}."
    )


def _namespaces(found: Sequence[Answers]) -> console.Sheet:
    rows = [
        [*(str(one[key]) for key in ("namespace", "bundles", "without_topics", "splits")), new]
        for one in found
        for new in ["?" if one["cuts"] is None else str(len(one["cuts"]) + 1)]
    ]
    heads = ["bundles", "without topics", "needs splits", "enough if created again"]
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
        text = f"No bundle with one topic takes in more than {limit:g} MB/s or a broker can carry"
        return AdviceSection("Partitions", f"{text}. Topics of other bundles are not recorded.")
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


def _peak(plan: Answers) -> AdviceSection:
    number, limit = counted(len(plan["moves"]), "move"), f"{100 * plan['limit']:.0f} %"
    after = (
        f"at {100 * plan['after']:.0f} % after {number} (proven: to be below {limit} takes at "
        f"least {plan['least']})"
    )
    rows = [
        [one["broker"], f"{100 * one['before']:.0f} %", f"{100 * one['after']:.0f} %"]
        for one in plan["brokers"]
    ]
    columns: Sequence[tuple[str, console.Side]] = [
        ("broker", "left"),
        ("peak now", "right"),
        ("after moves", "right"),
    ]
    return AdviceSection(
        "Peak",
        f"The fullest broker is at {100 * plan['before']:.0f} % now, and "
        f"{after if plan['moves'] else 'no move is planned'}.",
        [console.Sheet(columns, rows)],
        plan["commands"],
    )


def _launch(one: Answers) -> AdviceSection:
    parts = counted(one["partitions"], "partition")
    enough = f"takes {counted(one['bundles'] or 0, 'bundle')}; the fullest has {one['in_fullest']}"
    few = "needs more partitions to be balanced"
    return AdviceSection(
        "Launch",
        f"{one['namespace']} with {parts} {enough if one['command'] else few}. With all that is "
        f"expected, the cluster needs {_number(one['brokers'])}.",
        commands=[one["command"]] if one["command"] else [],
    )
