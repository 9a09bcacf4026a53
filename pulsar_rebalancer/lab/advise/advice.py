"""All answers about one recorded cluster, in the form of their JSON."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from shlex import quote
from typing import Any

import numpy as np

from pulsar_rebalancer.lab.advise.broker_counts import Plan, departure, fewest, together
from pulsar_rebalancer.lab.advise.bundle_counts import (
    enough,
    present_pieces,
    presplit,
    split_pieces,
    spread_of,
)
from pulsar_rebalancer.lab.advise.peak_plan import peak_plan
from pulsar_rebalancer.lab.advise.recorded_loads import REST, RecordedLoads
from pulsar_rebalancer.lab.advise.sized_cluster import SizedCluster, sized
from strategies.bundles import hexadecimal, namespace_of
from strategies.errors import raise_complaints
from strategies.round.round_input_and_digest import Rules
from strategies.shedding.steady.optimum_certificate import best_spread

_LAUNCH = re.compile(
    r"([-=:.\w]+/[-=:.\w]+)=(\d+(?:\.\d+)?)MB/s,partitions=([1-9]\d{0,4})", re.ASCII
)
_HOUR_MS = 3_600_000
#: Hours in a row that are advised.
IN_A_ROW = 3
#: Recorded hours from which on advice covers a day and its night.
DAY_HOURS = 24
Answers = dict[str, Any]


def advice(
    recorded: RecordedLoads,
    rules: Rules,
    *,
    at_most: float,
    spread: float,
    per_partition: float,
    may_go: Sequence[str],
    expect: Sequence[str],
    plan_for: str | None = None,
) -> Answers:
    """All answers. `at_most`: usage (fraction) above which a broker is overloaded; `spread`:
    points; `per_partition`: bytes/s; `may_go`: brokers, none for all; `expect`: launches as text;
    `plan_for`: "peak" for moves. Raises SettingsError for unknown brokers and launches that cannot
    be read.
    """
    known, launches = recorded.brokers, [_LAUNCH.fullmatch(text) for text in expect]
    wrong = [
        f"--may-go {one}: is none of {', '.join(known)}" for one in sorted({*may_go} - {*known})
    ]
    if None in launches:
        wrong.append("--expect: write for example tenant/ns=120MB/s,partitions=64")
    named = [*dict.fromkeys(map(namespace_of, recorded.bundles))]
    named += [one[1] for one in launches if one]
    wrong += [
        f"--expect {one[0]}: {one[1]} exists, or is expected twice; name only new namespaces"
        for one in launches
        if one and named.count(one[1]) > 1
    ]
    raise_complaints(wrong)
    cluster = sized(recorded, rules, at_most)
    careful = cluster.with_margin, at_most - cluster.unsure
    as_recorded = fewest(cluster, at_most)
    needed = fewest(*careful, least=as_recorded["least"])
    each = [departure(cluster, one, at_most) for one in dict.fromkeys(may_go or known)]
    gone, plan = together(*careful, each) if may_go else (None, needed["plan"])
    removed = [] if plan is None else sorted({*known}.difference(plan["brokers"]))
    return {
        "begins_ms": recorded.begins_ms,
        "hours": recorded.hours,
        "at_most": at_most,
        "margin": {"load": cluster.growth - 1, "usage": cluster.unsure},
        "brokers": {
            "present": len(known),
            "recorded": as_recorded,
            "needed": needed,
            "doubled": fewest(*careful, 2.0, least=needed["least"]),
            "each": each,
            "together": gone,
            "removed": removed,
            "commands": [*_moves(cluster, plan, removed)] if plan and removed else [],
        },
        "bundles": _bundles(cluster, spread),
        "partitions": [*_hot(cluster, at_most, per_partition)],
        "when": _when(recorded, cluster),
        "peak": None if plan_for is None else peak_plan(cluster, at_most),
        "launches": _launches(cluster, [*filter(None, launches)], at_most, spread),
    }


def _moves(cluster: SizedCluster, plan: Plan, removed: Sequence[str]) -> Iterator[str]:
    """The moves that lead to a plan, then a drain of each broker that it leaves out."""
    for name, row in zip(cluster.names, cluster.owners.tolist(), strict=True):
        goal, listed = plan["owners"][name], row >= 0 and not name.endswith(REST)
        if listed and cluster.brokers[row] != goal:
            yield f"rebalancer move {quote(name)} --to {quote(goal)} --reason 'fewer brokers'"
    yield from (f"rebalancer drain {quote(broker)} --reason 'fewer brokers'" for broker in removed)


def gauges(answers: Answers) -> dict[str, float]:
    """The metrics for autoscalers. Without a plan that has the margin of at least a day, no fewer
    brokers are recommended than there are, and none may go.
    """
    brokers, hours = answers["brokers"], answers["hours"]
    present, found = brokers["present"], brokers["needed"]["found"]
    is_proof = found is not None and hours >= DAY_HOURS
    recommended = found if is_proof else max(present, found or brokers["needed"]["least"])
    return {
        "recommended_brokers": recommended,
        "removable_brokers": max(0, present - recommended),
        "last_advice_timestamp_seconds": answers["begins_ms"] / 1000 + 3600 * hours,
    }


def _bundles(cluster: SizedCluster, most: float) -> Answers:
    """`spread`: points, that some placement of the present bundles reaches at mean load; `bound`:
    below which none gets. `splits`: None where no number is enough; `cuts`: inner boundaries of
    enough bundles, near halves of the load, for a namespace that is created again.
    """
    present, spaces = present_pieces(cluster)
    loads = np.array([one.load for one in present])
    parts = enough(cluster, present, most)
    fewer = None if cluster.divisible.any() else enough(cluster, spaces, most)
    splits = None if parts is None else split_pieces(parts)
    return {
        "policies_aside": cluster.has_policies,
        "spread": spread_of(cluster, loads),
        "bound": best_spread(loads, 100 * cluster.idle / cluster.power, cluster.power / 100),
        "splits": None if splits is None else len(splits),
        "commands": [
            f"pulsar-admin namespaces split-bundle {quote(one.namespace)} --bundle {one.range} "
            "--split-algorithm-name range_equally_divide"
            for one in splits or ()
        ],
        "namespaces": [
            {
                "namespace": one.namespace,
                "bundles": len(one.leaves),
                "without_topics": sum(not topics for _, _, topics in one.leaves),
                "splits": sum(other.namespace == one.namespace for other in splits or ()),
                "cuts": fewer
                and sorted(
                    hexadecimal(other.range.lower)
                    for other in fewer
                    if other.namespace == one.namespace and other.range and other.range.lower
                ),
            }
            for one in spaces
            if not one.namespace.endswith(REST)
        ],
    }


def _hot(cluster: SizedCluster, at_most: float, per_partition: float) -> Iterator[Answers]:
    """Bundles that no placement can make fit. `received`: bytes/s at the 99th percentile;
    `partitions`: that the topic needs, None where one of several topics may be hot.
    """
    room = max(float((at_most * cluster.power - cluster.idle).max()), 1e-12)
    beyond = np.stack([cluster.sizes.max(axis=1) / room, cluster.received / per_partition])
    for at in np.argsort(-cluster.received, kind="stable").tolist():
        single = int(cluster.topics[at]) == 1
        if beyond[0, at] > 1 or (single and beyond[1, at] > 1):
            yield {
                "bundle": cluster.names[at],
                "topics": int(cluster.topics[at]),
                "received": float(cluster.received[at]),
                "partitions": ceil(beyond[:, at].max()) if single else None,
            }


def _when(recorded: RecordedLoads, cluster: SizedCluster) -> Answers:
    """`loads`: hour of the day (UTC) → its mean load, as part of the mean of all; `best`: the first
    of the hours in a row with the least load, None where hours are unknown.
    """
    times = recorded.begins_ms + np.arange(len(cluster.total)) * recorded.step_ms
    hours, mean = times // _HOUR_MS % 24, max(cluster.total.mean(), 1e-12)
    loads = {int(hour): cluster.total[hours == hour].mean() / mean for hour in np.unique(hours)}
    rows = [[loads.get((at + one) % 24, np.nan) for one in range(IN_A_ROW)] for at in range(24)]
    means = np.mean(rows, axis=1)
    best = None if np.isnan(means).any() else int(means.argmin())
    return {
        "loads": {f"{hour:02d}": float(one) for hour, one in loads.items()},
        "best": best,
        "part": None if best is None else float(means[best]),
    }


def _launches(
    cluster: SizedCluster, launches: Sequence[re.Match[str]], at_most: float, spread: float
) -> list[Answers]:
    """Each launch, whose traffic costs what the recorded one does, and the `brokers` that the
    cluster needs with all of them.
    """
    answers, more = list[Answers](), cluster
    for read in launches:
        namespace, partitions = read[1], int(read[3])
        load = 1e6 * float(read[2]) * cluster.per_received / partitions
        held = presplit(more, namespace, [load] * partitions, at_most, spread)
        parts = np.array(held or [1] * partitions) * load
        more = replace(
            more,
            names=more.names + tuple(f"{namespace}/{one}" for one in range(len(parts))),
            sizes=np.concatenate([more.sizes, np.tile(parts[:, None], more.sizes.shape[1])]),
            owners=np.append(more.owners, np.full(len(parts), -1)),
            topics=np.append(more.topics, np.ones(len(parts), dtype=np.int64)),
            divisible=np.append(more.divisible, np.zeros(len(parts), dtype=bool)),
            dear=np.append(more.dear, np.ones(len(parts))),
        )
        answers.append(
            {
                "namespace": namespace,
                "partitions": partitions,
                "bundles": held and len(held),
                "in_fullest": held and max(held),
                "command": held
                and f"pulsar-admin namespaces create {namespace} --bundles {len(held)}",
            }
        )
    brokers = fewest(more.with_margin, at_most - more.unsure) | {"plan": None} if answers else None
    return [one | {"brokers": brokers} for one in answers]
