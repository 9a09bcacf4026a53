"""Checks of a Pulsar cluster: brokers, their versions and the release whose rules and defaults the
settings follow, token rights, other programs that move bundles, age of the figures, clocks.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from threading import Event
from typing import TypeVar

from pulsar_rebalancer.doctor.brokers import (
    Broker,
    check_brokers,
    check_filters,
    check_load_manager,
    check_rhythm,
    check_rivals,
    check_samples,
    check_shedder,
)
from pulsar_rebalancer.doctor.disk_and_topics import pulsar_topics
from pulsar_rebalancer.doctor.finding import Check, Finding, Rule, Status, evaluate, ok
from pulsar_rebalancer.doctor.policies import check_policies
from pulsar_rebalancer.doctor.signing_keys_and_tokens import check_expiry
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.collector.broker_poll import Pass
from sinks.collector.collector import Source, encode_report
from sinks.collector.open_cluster import opened, run_until_complete
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.broker_facts import (
    broker_time_s,
    check_cluster_name,
    running_manager,
)
from sinks.pulsar_api.connection_tls_and_token import KnownBrokers, PulsarSettings, admin_urls
from sinks.pulsar_api.frozen_brokers import PATIENCE_MS, find_stuck, probing
from sinks.wire.record_decoding import decode
from strategies.cluster.model import Figures, LoadReport
from strategies.errors import AdminError, RebalancerError, SettingsError, Unauthorized, WireError
from strategies.fold.engine import EngineSettings, rules_of
from strategies.java.pulsar_versions_and_defaults import (
    PULSAR_VERSION,
    ClusterRelease,
    PulsarRelease,
    matches_ids,
    release_of,
)
from strategies.round.compared_resources import compare_figures, remedy_of
from strategies.round.state_of_round import reason_of
from streaming.checkpoint.guard import checkpoint_folder
from streaming.checkpoint.remembered_and_changed_settings import written_guard
from streaming.first_start import release_in

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


def check_token(settings: PulsarSettings, known: KnownBrokers | None = None) -> Finding:
    """Checks whether the cluster would have answered without the token, with which all requests so
    far succeeded.
    """
    if not settings.token_file:
        return ok("token", "none is sent, and the cluster requires none")
    anonymous = PulsarAdmin(replace(settings, token_file="", attempts=1), known=known)
    try:
        with closing(anonymous):
            anonymous.brokers()
    except AdminError:
        return ok("token", "has super-user rights: brokers, configuration and load are readable")
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
    worst = max(skews, key=lambda broker: skews[broker], default="")
    most_s = skews.get(worst, 0.0)
    return evaluate(
        "clocks",
        f"{len(skews)} brokers agree with this machine within {max(1.0, most_s):.0f} s",
        Rule(not skews, "warn", "no broker sends its time", "compare the clocks manually"),
        Rule(
            most_s > _SKEW_S,
            "warn",
            f"{worst} differs by {most_s:.0f} s from this machine",
            "synchronise all machines' clocks with NTP",
        ),
    )


def check_figures(source: Source, engine: EngineSettings, patience_s: float) -> Iterator[Finding]:
    """Checks that all brokers have new figures, by which they can be compared."""
    done = run_until_complete(source, patience_s, Event().wait)
    reports, rejected = _read(source.cluster, done)
    yield from _check_reports(done, reports, rejected)
    figures = {one.broker: one.figures for one in reports if one.figures is not None}
    yield from _check_measured(figures, engine)


def _read(cluster: str, done: Pass) -> tuple[list[LoadReport], dict[str, str]]:
    """The reports that the job can use, and broker → why it rejects the others."""
    reports, rejected = list[LoadReport](), dict[str, str]()
    for report in done.reports:
        try:
            record = decode(encode_report(cluster, report), b"")
        except WireError as error:
            rejected[report.broker] = error.text
        else:
            reports += [record] if isinstance(record, LoadReport) else []
    return reports, rejected


def _check_reports(
    done: Pass, reports: Iterable[LoadReport], rejections: Mapping[str, str]
) -> Iterator[Finding]:
    usable = len({*done.answered} - rejections.keys())
    text = f"{usable} of {len(done.answered) + len(done.missing)} brokers have figures"
    status: Status = "warn" if usable else "fail"
    rejected, missing = min(rejections, default=""), min(done.missing, default="")
    yield evaluate(
        "reports",
        text,
        Rule(
            bool(rejected),
            status,
            f"{text}: the reports of {rejected} are rejected: {rejections.get(rejected)}",
            "see what its broker reports: pulsar-admin broker-stats load-report",
        ),
        Rule(
            bool(missing),
            status,
            f"{text}: {done.missing.get(missing)}",
            "wait, or lower loadBalancerReportUpdateMaxIntervalMinutes in its broker.conf; if that "
            "does not help, see its log",
        ),
    )
    left_out = {one.broker: one.left_out for one in reports if one.left_out}
    if left_out:
        broker = min(left_out)
        more = f", and some of {len(left_out) - 1} more brokers" if len(left_out) > 1 else ""
        yield Finding(
            "figures",
            "warn",
            f"{broker} reports figures that are left out: {'; '.join(left_out[broker])}{more}",
            "look at the broker's log, and report it to Pulsar if it lasts",
        )


def _check_measured(figures: Mapping[str, Figures], engine: EngineSettings) -> Iterator[Finding]:
    """Checks which resources the brokers measure, where rounds compare by these."""
    rules = rules_of(engine)
    if not (figures and rules.by_mode.compares_measured):
        return
    found = compare_figures(figures, engine.weights, rules.capacities, "")
    for skip in found.skips:
        remedy = f"set {skip.evidence['set']}" if "set" in skip.evidence else ""
        text = reason_of(skip).replace(f": {remedy}", "")
        yield Finding(
            "measured",
            "warn",
            text,
            remedy or "make all brokers measure one resource, as the other findings say",
        )
    if found.nowhere:
        names = ", ".join(found.nowhere)
        text = f"no broker measures {names}, so none is compared by it"
        yield Finding("measured", "warn", text, f"set {remedy_of(found.nowhere)}")
    if not (found.skips or found.nowhere):
        yield ok("measured", "all brokers measure what they are compared by")


def _findings(
    settings: Settings, pulsar: PulsarSettings, shadow: bool, patience_s: float
) -> Iterator[Finding]:
    engine = settings.engine
    known = KnownBrokers(pulsar)
    with closing(PulsarAdmin(pulsar, Event().wait, known=known)) as admin:
        check_cluster_name(pulsar, pulsar.admin_urls, admin.configuration())
        names = admin.brokers()
        yield ok("admin URLs", "a broker that pulsar.admin_urls names answers")
        yield ok("cluster name", f"{pulsar.cluster}, as the brokers name it")
        listed = _all(
            lambda name: _ask(admin, name), names or [url.netloc for url in admin_urls(pulsar)]
        )
        by_id = matches_ids(used_release(listed, settings))
        policies = (
            [*check_policies(admin, names, by_id=by_id, domains=engine.filters.failure_domains)]
            if names
            else []
        )
    yield check_brokers(listed if names else [])
    yield check_load_manager(listed, pulsar)
    yield from check_shedder(listed)
    yield check_release(listed, settings)
    yield check_filters(listed, engine)
    yield from policies
    yield from check_rivals(listed, engine.splitting.enabled, shadow, engine.rivals.moves_per_hour)
    yield check_freezes(names, pulsar)
    yield check_rhythm(listed, engine.round.interval_ms)
    if engine.entry.sample_key is not None:
        yield check_samples(listed, engine, engine.entry.sample_key)
    yield check_token(pulsar, known)
    yield check_clocks(names, pulsar)
    with opened(pulsar, settings.collector, Event().wait, known) as source:
        yield from check_figures(source, engine, patience_s)


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


def in_release_of_checkpoint(settings: Settings) -> Settings:
    """The settings with the Pulsar release of their checkpoint, if they leave it open."""
    release = _fixed(settings)
    return settings if release is None else settings.in_release(release)


def used_release(listed: Sequence[Broker], settings: Settings) -> PulsarRelease:
    """The release whose rules decide: that of settings or checkpoint, otherwise of the brokers."""
    return _fixed(settings) or _running(listed).release


def check_release(listed: Sequence[Broker], settings: Settings) -> Finding:
    """Checks that the rules that decide are those of the oldest broker, and that all versions are
    known.
    """
    found, used = _running(listed), used_release(listed, settings)
    fine = f"the rules and defaults of {used} apply: {found.why}"
    how = "the checkpoint fixes" if settings.release_is_open else "the settings name"
    differs = f"{how} the rules and defaults of {used}, but {found.why}"
    known = found.oldest is not None
    return evaluate(
        "pulsar version",
        fine,
        Rule(
            known and used != found.release,
            "warn",
            "; ".join((differs, *found.remarks)),
            f'to follow the brokers, set {PULSAR_VERSION} = "{found.release}" and name a new '
            "folder as job.checkpoint",
        ),
        Rule(
            known and bool(found.remarks),
            "warn",
            "; ".join((fine, *found.remarks)),
            "finish the upgrade, or update this program if the brokers are newer than it",
        ),
    )


def _running(listed: Sequence[Broker]) -> ClusterRelease:
    return release_of({broker.name: broker.version for broker in listed if broker.version})


def _fixed(settings: Settings) -> PulsarRelease | None:
    """The release of the settings, otherwise that of the checkpoint; None before the first start.
    The finding about the checkpoint reports a damaged one.
    """
    if not settings.release_is_open:
        return settings.engine.pulsar_version
    with suppress(RebalancerError):
        written = written_guard(checkpoint_folder(settings.job))
        return None if written is None else release_in(written)
    return None
