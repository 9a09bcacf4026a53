"""Checks of a Pulsar cluster: brokers, token rights, other programs that move bundles, age of the
figures, clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TypeVar

from pulsar_rebalancer.cli.finding import Finding, ok
from pulsar_rebalancer.cli.own_shedder import SWITCH_OFF
from pulsar_rebalancer.doctor.brokers import Broker, running_manager
from pulsar_rebalancer.doctor.check_timeouts import Check
from pulsar_rebalancer.doctor.disk_and_topics import pulsar_topics
from pulsar_rebalancer.doctor.figures import check_figures
from pulsar_rebalancer.doctor.policies import check_policies
from pulsar_rebalancer.doctor.running_release import check_release, used_release
from pulsar_rebalancer.doctor.running_shedder import check_load_manager, check_shedder
from pulsar_rebalancer.doctor.token import check_expiry
from pulsar_rebalancer.settings.load import Settings
from sinks.collector.open_cluster import opened
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_clock import broker_time_s
from sinks.pulsar_api.cluster_name import check_cluster_name
from sinks.pulsar_api.freezes import PATIENCE_MS, find_stuck, probing
from sinks.pulsar_api.known_brokers import KnownBrokers
from sinks.pulsar_api.settings import PulsarSettings, admin_urls
from strategies.errors import AdminError, RebalancerError, SettingsError, Unauthorized
from strategies.fold.engine import EngineSettings
from strategies.java.release_defaults import matches_ids

T = TypeVar("T")

#: Time that one pass waits for brokers that publish at an interval of their own.
PATIENCE_S = 10.0
_SKEW_S = 5
_AT_ONCE = 16


def check_tokens(settings: Settings) -> list[Finding]:
    """Expiry of the tokens: that of [pulsar], which topics on Pulsar use, and those of [clusters].
    Reads files only.
    """
    now_s = time.time()
    if settings.clusters == (settings.connections.pulsar,):
        return check_expiry(settings.connections.pulsar, now_s)
    of_topics = (settings.connections.pulsar,) if pulsar_topics(settings.connections) else ()
    return [
        *(finding for pulsar in of_topics for finding in check_expiry(pulsar, now_s)),
        *(one for each in settings.clusters for one in _named(each, check_expiry(each, now_s))),
    ]


def cluster_checks(
    settings: Settings, shadow: bool, patience_s: float = PATIENCE_S
) -> Iterator[tuple[str, Check]]:
    """The check of each cluster, with its name; with several, each finding names its cluster.
    `shadow`: no executor of ours acts.
    """
    for cluster in settings.clusters:
        check = partial(check_cluster, settings, cluster, shadow, patience_s)
        if len(settings.clusters) == 1:
            yield "cluster", check
        else:
            yield f"{cluster.cluster}: cluster", partial(_named, cluster, check())


def _named(cluster: PulsarSettings, findings: Iterable[Finding]) -> Iterable[Finding]:
    return (replace(one, check=f"{cluster.cluster}: {one.check}") for one in findings)


def check_cluster(
    settings: Settings, pulsar: PulsarSettings, shadow: bool, patience_s: float = PATIENCE_S
) -> Iterator[Finding]:
    """All findings about one cluster; a single `ok` if the settings name none."""
    if not pulsar.admin_urls:
        yield ok("cluster", "not checked: the settings name no cluster (pulsar.admin_urls)")
        return
    try:
        yield from _findings(settings, pulsar, shadow, patience_s)
    except SettingsError as error:
        for complaint in error.complaints:
            yield Finding("cluster", "fail", complaint, "correct that setting")
    except Unauthorized as error:
        yield Finding(
            "token",
            "fail",
            str(error),
            "write a token of a role with super-user rights into a file and set pulsar.token_file "
            "to its path",
        )
    except RebalancerError as error:
        yield Finding(
            "cluster", "fail", str(error), "start the cluster, or correct [pulsar] in the settings"
        )


def check_reach(known: KnownBrokers) -> Finding:
    """Checks that an address of the settings answers, not only a broker that the cluster listed
    earlier.
    """
    if not known.used:
        return ok("admin URLs", "a broker that pulsar.admin_urls names answers")
    return Finding(
        "admin URLs",
        "warn",
        f"no broker that pulsar.admin_urls names answers ({known.why}); {known.used} did, which "
        "the cluster listed earlier",
        "start that broker, or name others in pulsar.admin_urls, at least two",
    )


def check_brokers(listed: Sequence[Broker]) -> Finding:
    """Checks that all brokers answer and run the same version."""
    silent = [broker for broker in listed if broker.why]
    versions = sorted({broker.version for broker in listed if not broker.why})
    if not listed:
        return Finding(
            "brokers",
            "fail",
            "the cluster lists no broker, although one answers",
            "see the brokers' logs: a broker whose load manager fails, as after a change of "
            "loadManagerClassName, leaves the list",
        )
    text = (
        f"{len(listed) - len(silent)} of {len(listed)} answer, version "
        f"{' and '.join(versions) or 'unknown'}"
    )
    if silent:
        return Finding(
            "brokers",
            "fail" if len(silent) == len(listed) else "warn",
            f"{text}: {silent[0].why}",
            "check the brokers that do not answer",
        )
    if len(versions) > 1:
        return Finding(
            "brokers",
            "warn",
            text,
            "finish the upgrade: bundles may not move to a broker with an older version",
        )
    return ok("brokers", text)


def check_filters(listed: Sequence[Broker], engine: EngineSettings) -> Finding:
    """Checks that destinations are filtered as the running load manager requires; with the other
    one's filters none is found.
    """
    strategy = engine.entry
    counted = (
        strategy.load_manager
        if engine.filters.load_manager == "auto"
        else engine.filters.load_manager
    )
    runs = sorted(
        {
            name
            for broker in listed
            for name in ("modular", "extensible")
            if broker.manager.lower().startswith(name)
        }
    )
    if runs and runs != [counted]:
        return Finding(
            "filters",
            "warn",
            f"{' and '.join(runs)} brokers, but destinations are filtered for {counted} ones "
            f"(shedding.strategy is {strategy.name})",
            f"set filters.load_manager to {runs[0]}",
        )
    return ok("filters", f"destinations are filtered for {counted} brokers")


def check_rivals(
    listed: Sequence[Broker], splitting: bool, shadow: bool, moves_per_hour: int = 0
) -> Iterator[Finding]:
    """Reports whether brokers move and split bundles themselves. `moves_per_hour`: above which
    rounds yield.
    """
    known = [broker for broker in listed if broker.manager]
    balancing = [
        broker for broker in known if broker.configuration.get("loadBalancerEnabled") != "false"
    ]
    shedding, splits = (
        [broker.name for broker in balancing if broker.configuration.get(key) == "true"]
        for key in ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
    )
    if shedding and not shadow:
        yield Finding(
            "built-in shedding",
            "fail",
            f"is on at {_some(shedding)}: brokers and executors would move the same bundles",
            f"switch it off: {SWITCH_OFF.format('loadBalancerSheddingEnabled')}; or only compare "
            "with it: rebalancer shadow, doctor --shadow",
        )
    elif shadow and shedding and moves_per_hour:
        yield Finding(
            "built-in shedding",
            "warn",
            f"is on at {_some(shedding)}, as shadow mode requires, and rounds yield to it "
            f"(rivals.moves_per_hour = {moves_per_hour})",
            "set rivals.moves_per_hour to 0 in shadow mode",
        )
    elif shadow and not shedding:
        yield Finding(
            "built-in shedding",
            "warn",
            "is off: shadow mode has no moves to compare with",
            "switch it on",
        )
    else:
        yield ok(
            "built-in shedding",
            f"is on at {_some(shedding)}, as shadow mode requires" if shedding else "is off",
        )
    if splits and splitting:
        yield Finding(
            "built-in splitting",
            "warn",
            f"is on at {_some(splits)}, and splitting.enabled too",
            f"{SWITCH_OFF.format('loadBalancerAutoBundleSplitEnabled')}, or set "
            "splitting.enabled to false",
        )
    else:
        yield ok(
            "built-in splitting",
            f"is on at {_some(splits)}: brokers split, the job does not" if splits else "is off",
        )
    for broker in known:
        if broker.configuration.get("loadBalancerEnabled") == "false":
            yield Finding(
                "load balancer",
                "fail",
                f"loadBalancerEnabled is false at {broker.name}: it reports no load",
                "set loadBalancerEnabled=true in broker.conf; shedding stays off by its own key",
            )


def check_freezes(
    brokers: tuple[str, ...], settings: PulsarSettings, patience_ms: int = PATIENCE_MS
) -> Finding:
    """Finds frozen brokers, which answer requests but no longer read metadata: checks each broker,
    and a second time if it does not. Raises Unauthorized.
    """
    with closing(PulsarAdmin(probing(settings, patience_ms))) as admin:
        stuck = find_stuck(admin, brokers, brokers)
    if not stuck:
        return ok("frozen brokers", "none: every broker that answers reads metadata")
    return Finding(
        "frozen brokers",
        "fail",
        stuck.what,
        f"{stuck.remedy}; executors refuse all moves until then",
    )


def check_rhythm(listed: Sequence[Broker], interval_ms: int) -> Finding:
    """Checks that brokers measure at least once per round."""
    slowest = _slowest(listed, "statsUpdateFrequencyInSecs")
    text = f"brokers measure traffic every {slowest} s, rounds close every {interval_ms / 1000:g} s"
    if slowest * 1000 > interval_ms:
        return Finding(
            "rhythm",
            "warn",
            text,
            "raise round.interval_ms, or lower statsUpdateFrequencyInSecs: a round without new "
            "figures decides on old ones",
        )
    return ok("rhythm", text)


def check_samples(listed: Sequence[Broker], engine: EngineSettings, key: str) -> Finding:
    """Checks that the strategy counts no measurement of a broker as two samples. `key`: the setting
    with the period of its samples.
    """
    path, seconds = f"shedding.{engine.strategy}.{key}", float(getattr(engine.chosen, key))
    traffic = _slowest(listed, "statsUpdateFrequencyInSecs")
    cpu = (
        60 * _slowest(listed, "loadBalancerHostUsageCheckIntervalMinutes")
        if engine.weights.cpu
        else 0
    )
    text = f"brokers measure traffic every {traffic} s{f' and CPU every {cpu} s' if cpu else ''}"
    text += f", {path} = {seconds:g}"
    longest = max(traffic, cpu)
    if longest > seconds:
        return Finding(
            "samples",
            "warn",
            text,
            f"set {path} to {longest} or more: one measurement may count as several samples",
        )
    return ok("samples", text)


def _slowest(listed: Sequence[Broker], key: str) -> int:
    """The largest value of a key of broker.conf, 0 if no broker has it."""
    texts = (broker.configuration.get(key, "") for broker in listed)
    return max((int(text) for text in texts if text.isdecimal()), default=0)


def check_token(settings: PulsarSettings, known: KnownBrokers | None = None) -> Finding:
    """Checks whether the cluster would have answered without the token, with which all requests so
    far succeeded.
    """
    if not settings.token_file:
        return ok("token", "none is sent, and the cluster requires none")
    anonymous = PulsarAdmin(replace(settings, token_file="", attempts=1), known=known)
    try:
        anonymous.brokers()
    except AdminError:
        return ok("token", "has super-user rights: brokers, configuration and load are readable")
    finally:
        anonymous.close()
    return Finding(
        "token",
        "warn",
        "the cluster also answers without a token",
        "set authenticationEnabled=true, or restrict access to its network",
    )


def check_clocks(
    brokers: Sequence[str], settings: PulsarSettings, now_s: Callable[[], float] = time.time
) -> Finding:
    """Compares the brokers' clocks with this machine's. The collector stamps reports, but commands
    expire and averages age by clocks.
    """

    def skew(broker: str) -> float | None:
        theirs, now = broker_time_s(broker, settings), now_s()
        # The HTTP header has whole seconds only.
        return None if theirs is None else max(theirs - now, now - theirs - 1, 0.0)

    skews = {
        broker: found
        for broker, found in zip(brokers, _all(skew, brokers), strict=True)
        if found is not None
    }
    if not skews:
        return Finding("clocks", "warn", "no broker sends its time", "compare the clocks manually")
    worst = max(skews, key=lambda broker: skews[broker])
    if skews[worst] > _SKEW_S:
        return Finding(
            "clocks",
            "warn",
            f"{worst} differs by {skews[worst]:.0f} s from this machine",
            "synchronise all machines' clocks with NTP",
        )
    return ok(
        "clocks",
        f"{len(skews)} brokers agree with this machine within {max(1.0, skews[worst]):.0f} s",
    )


def _findings(
    settings: Settings, pulsar: PulsarSettings, shadow: bool, patience_s: float
) -> Iterator[Finding]:
    known = KnownBrokers(pulsar)
    with closing(PulsarAdmin(pulsar, Event().wait, known=known)) as admin:
        check_cluster_name(pulsar, pulsar.admin_urls, admin.configuration())
        names = admin.brokers()
        yield check_reach(known)
        yield ok("cluster name", f"{pulsar.cluster}, as the brokers name it")
        listed = _all(
            lambda name: _ask(admin, name), names or [url.netloc for url in admin_urls(pulsar)]
        )
        by_id = matches_ids(used_release(listed, settings))
        domains = settings.engine.filters.failure_domains
        policies = [*check_policies(admin, names, by_id=by_id, domains=domains)] if names else []
    yield check_brokers(listed if names else [])
    yield check_load_manager(listed, pulsar)
    yield from check_shedder(listed)
    yield check_release(listed, settings)
    yield check_filters(listed, settings.engine)
    yield from policies
    engine = settings.engine
    yield from check_rivals(listed, engine.splitting.enabled, shadow, engine.rivals.moves_per_hour)
    yield check_freezes(names, pulsar)
    yield check_rhythm(listed, settings.engine.round.interval_ms)
    if settings.engine.entry.sample_key is not None:
        yield check_samples(listed, settings.engine, settings.engine.entry.sample_key)
    yield check_token(pulsar, known)
    yield check_clocks(names, pulsar)
    with opened(pulsar, settings.collector, Event().wait, known) as source:
        yield from check_figures(source, settings.engine, patience_s)


def _ask(admin: PulsarAdmin, name: str) -> Broker:
    try:
        return Broker(
            name, admin.version(name), admin.configuration(name), runs=running_manager(admin, name)
        )
    except Unauthorized:
        raise
    except AdminError as error:
        return Broker(name, "", {}, str(error))


def _all(ask: Callable[[str], T], brokers: Sequence[str]) -> list[T]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doctor") as pool:
        return list(pool.map(ask, brokers))


def _some(brokers: Sequence[str]) -> str:
    return brokers[0] if len(brokers) == 1 else f"{brokers[0]} and {len(brokers) - 1} more"
