"""Compares `rebalancer upgrade-preview` with separate `rebalancer backtest` commands, one for each
release, and with the recording itself: every figure.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sinks.recordings.json_lines import open_recording
from tests.unit.command_line import rebalancer

DAY_MS, MINUTE_MS = 86_400_000, 60_000
#: What a back-test needs to decide as Pulsar does by default.
DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "4.2": (
        "shedding.strategy=threshold",
        "placement.strategy=least_long_term_rate",
        "filters.distribute_evenly=true",
        "shedding.avg.max_unload=0.2",
    ),
    "5.0": (
        "shedding.strategy=avg",
        "placement.strategy=avg",
        "filters.distribute_evenly=false",
        "shedding.avg.max_unload=0.5",
    ),
}


def flags(settings: Iterable[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def previewed(recording: Path, *more: object) -> dict[str, Any]:
    answer = rebalancer("upgrade-preview", recording, "--json", *more)
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json
    return document


def backtest_alone(recording: Path, version: str, *more: object) -> dict[str, Any]:
    """The only run of a back-test in parity mode with the rules of a release."""
    rules = flags([f"pulsar.version={version}", "shedding.mode=parity"])
    answer = rebalancer("backtest", recording, "--json", *rules, *more)
    assert answer.code == 0, answer.err
    (run,) = answer.json["runs"]
    figures: dict[str, Any] = run
    return figures


def check_defaults(recording: Path, *settings: str, lines: Path | None = None) -> list[int]:
    """Compares both runs of the defaults with back-tests that name every setting, nothing of the
    preview's own choice; returns their numbers of moves. `lines`: the recording as JSON Lines.
    """
    more = flags(settings)
    runs = previewed(recording, *more)["runs"]
    assert [run["version"] for run in runs] == [*DEFAULTS]
    for run in runs:
        alone = backtest_alone(recording, run["version"], *flags(DEFAULTS[run["version"]]), *more)
        check_run(run, alone, f"defaults, {run['version']}")
        check_effects(run, _interval_ms(settings), recording if lines is None else lines)
    return [cluster["moved"] for run in runs for cluster in run["clusters"]]


def check_conf(
    recording: Path, conf: Path, left_out: Sequence[str], *settings: str
) -> tuple[int, int]:
    """Compares both runs of a broker.conf with back-tests that have the converted file as settings,
    for 5.0 with the keys that it leaves out; returns the numbers of moves.
    """
    converted = conf.with_suffix(".toml")
    converted.write_text(rebalancer("config", "from-broker-conf", conf).out, "utf-8")
    before, after, *_ = previewed(recording, "--broker-conf", conf, *flags(settings))["runs"]
    for run, more in ((before, ()), (after, left_out)):
        own = ("--config", converted, *flags([*settings, *more]))
        check_run(run, backtest_alone(recording, run["version"], *own), run["title"])
        check_effects(run, _interval_ms(settings), recording)
    assert [run["title"] for run in (before, after)] == ["broker.conf, 4.2", "broker.conf, 5.0"]
    return before["clusters"][0]["moved"], after["clusters"][0]["moved"]


def check_run(run: Mapping[str, Any], alone: Mapping[str, Any], title: str) -> None:
    """Every figure and every move of a back-test."""
    clusters = [
        {key: value for key, value in cluster.items() if key != "effects"}
        for cluster in run["clusters"]
    ]
    kept = {key: value for key, value in run.items() if key not in ("of", "version")}
    assert kept | {"clusters": clusters} == {**alone, "title": title}


def check_effects(run: Mapping[str, Any], interval_ms: int, lines: Path) -> None:
    """The figures that only a preview has: from the moves, and from the clients in the records.
    For recordings without a gap.
    """
    clients = _clients(lines, run["clusters"])
    for cluster in run["clusters"]:
        moves = cluster["moves"]
        days = cluster["rounds"] * interval_ms / DAY_MS
        by_time = Counter(move["ts"] for move in moves)
        most = max(by_time.values(), default=0)
        assert cluster["effects"] == {
            "moves_per_day": round(cluster["moved"] / days, 6) if days >= 1 else None,
            "bundles_moved": len({move["bundle"] for move in moves}),
            "clients_disturbed": clients[cluster["cluster"]],
            "first_move_at_ms": min(by_time, default=None),
            "most_moves_in_a_round": most,
            "most_moves_at_ms": min((ts for ts in by_time if by_time[ts] == most), default=None),
        }


def _interval_ms(settings: Sequence[str]) -> int:
    given = dict(setting.split("=") for setting in settings)
    return int(given.get("round.interval_ms", MINUTE_MS))


def _clients(lines: Path, clusters: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Cluster → sum of the producers and consumers that the newest load report names for each
    bundle when it moves.
    """
    due = {
        one["cluster"]: sorted(one["moves"], key=lambda move: move["ts"], reverse=True)
        for one in clusters
    }
    known: defaultdict[str, dict[str, int]] = defaultdict(dict)
    found = dict.fromkeys(due, 0)
    for line in open_recording(lines):
        record = json.loads(line)
        name, ts = record["cluster"], record["ts"]
        while due.get(name) and due[name][-1]["ts"] < ts:
            found[name] += known[name][due[name].pop()["bundle"]]
        if record["kind"] == "load-report":
            known[name] |= {
                bundle: one["producerCount"] + one["consumerCount"]
                for bundle, one in record["report"]["lastStats"].items()
            }
    for name, rest in due.items():
        found[name] += sum(known[name][move["bundle"]] for move in rest)
    return found
