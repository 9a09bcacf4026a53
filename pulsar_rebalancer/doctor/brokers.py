"""Checks of what brokers report about themselves: version, load manager, shedder, and whether they
move and split bundles on their own. They may differ from what broker.conf names.

A broker older than Pulsar 4.2.4 that cannot create its load manager runs SimpleLoadManagerImpl
instead (apache/pulsar pull request 26031). After a failed dynamic change of `loadManagerClassName`,
any broker keeps the old load manager or has none. The extensible load manager runs TransferShedder
in place of every class that is not made for it (UnloadScheduler).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pulsar_rebalancer.cli.own_shedder_warning import SWITCH_OFF
from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from strategies.figures.texts_of_counts_names_and_ages import first_of
from strategies.fold.engine import EngineSettings
from strategies.shedding.registry import EXTENSIBLE, SHEDDERS

_MANAGER, _SHEDDER = "load manager", "loadBalancerLoadSheddingStrategy"
#: Shedders that the modular load manager runs; the extensible one cannot.
_MODULAR = frozenset(
    strategy.java_class for strategy in SHEDDERS.values() if strategy.load_manager == "modular"
)


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker's report about itself, or in `why` the error. `runs`: the load manager that
    answers, empty if unknown.
    """

    name: str
    version: str
    configuration: Mapping[str, str]
    why: str = ""
    runs: str = ""

    @property
    def configured(self) -> str:
        """The class of load manager that the configuration names, without its package."""
        return self.class_of("loadManagerClassName")

    @property
    def manager(self) -> str:
        """The load manager that runs."""
        return self.runs or self.configured

    @property
    def shedder(self) -> str:
        """The shedder that the load manager runs for the configured one."""
        configured = self.class_of(_SHEDDER)
        if self.manager.startswith("Extensible") and configured in _MODULAR:
            return EXTENSIBLE.java_class
        return configured

    @property
    def sheds(self) -> bool:
        """True if shedding is on."""
        return self.balances and self.configuration.get("loadBalancerSheddingEnabled") == "true"

    @property
    def balances(self) -> bool:
        """True if the load balancer is on, without which the broker reports no load."""
        return self.configuration.get("loadBalancerEnabled") != "false"

    def class_of(self, key: str) -> str:
        """The class that a key names, without its package."""
        return self.configuration.get(key, "").rpartition(".")[2]


def check_brokers(listed: Sequence[Broker]) -> Finding:
    """Checks that all brokers answer and run the same version."""
    silent = [broker.why for broker in listed if broker.why]
    versions = sorted({broker.version for broker in listed if not broker.why})
    text = (
        f"{len(listed) - len(silent)} of {len(listed)} answer, version "
        f"{' and '.join(versions) or 'unknown'}"
    )
    unanswered = (f"{text}: {next(iter(silent), '')}", "check the brokers that do not answer")
    return evaluate(
        "brokers",
        text,
        Rule(
            not listed,
            "fail",
            "the cluster lists no broker, although one answers",
            "see the brokers' logs: a broker whose load manager fails, as after a change of "
            "loadManagerClassName, leaves the list",
        ),
        Rule(len(silent) == len(listed), "fail", *unanswered),
        Rule(bool(silent), "warn", *unanswered),
        Rule(
            len(versions) > 1,
            "warn",
            text,
            "finish the upgrade: bundles may not move to a broker with an older version",
        ),
    )


def check_load_manager(listed: Sequence[Broker], settings: PulsarSettings) -> Finding:
    """Checks that all brokers run one load manager, and that it is the configured one and that of
    `pulsar.load_manager`.
    """
    fallen = [
        broker
        for broker in listed
        if broker.runs and broker.configured and broker.runs != broker.configured
    ]
    names = {broker.manager: broker.name for broker in reversed(listed) if broker.manager}
    text = " and ".join(sorted(names)) or "unknown"
    where = ", ".join(f"{broker} runs {manager}" for manager, broker in sorted(names.items()))
    stated = settings.load_manager
    return evaluate(
        _MANAGER,
        text,
        *_fallen_back(fallen),
        Rule(
            len(names) > 1,
            "fail",
            f"{text}: {where}",
            "finish the migration: brokers with different load managers do not exchange their load",
        ),
        Rule(
            bool(names) and stated != "auto" and not text.lower().startswith(stated),
            "fail",
            f"{text}; pulsar.load_manager says {stated}",
            "set pulsar.load_manager to auto",
        ),
        Rule(
            bool(names) and not text.startswith(("Modular", "Extensible")),
            "fail",
            text,
            "set loadManagerClassName to ModularLoadManagerImpl or ExtensibleLoadManagerImpl: "
            "this one's figures cannot be read",
        ),
    )


def _fallen_back(fallen: Sequence[Broker]) -> Iterator[Rule]:
    """The rule about the first of these brokers, which do not run what is configured."""
    for first in fallen[:1]:
        placement = first.class_of("loadBalancerLoadPlacementStrategy")
        shedding = first.class_of(_SHEDDER)
        why = ""
        if placement in _MODULAR and shedding != placement:
            why = f"; {placement} places only where it sheds too, and {shedding} is configured"
        yield Rule(
            True,
            "fail",
            f"{first_of([one.name for one in fallen], 1)} runs {first.runs}, although "
            f"{first.configured} is configured: its creation, or the change to it, failed",
            "search the broker's log for 'load manager', correct broker.conf and restart the "
            f"broker{why} (Pulsar #26031)",
        )


def check_shedder(listed: Sequence[Broker]) -> Iterator[Finding]:
    """Reports the built-in shedder that runs, or would run if shedding were on. Warns if it is on
    and another one is configured.
    """
    known = [broker for broker in listed if broker.class_of(_SHEDDER)]
    if not known:
        return
    runs = sorted({broker.shedder for broker in known})
    replaced = [broker for broker in known if broker.shedder != broker.class_of(_SHEDDER)]
    text = " and ".join(runs)
    if replaced:
        configured = " and ".join(sorted({broker.class_of(_SHEDDER) for broker in replaced}))
        text += (
            f": the extensible load manager runs it in place of {configured}, which is configured"
        )
    yield evaluate(
        "built-in shedder",
        text if any(broker.sheds for broker in known) else f"{text}, and shedding is off",
        Rule(
            any(broker.sheds for broker in replaced),
            "warn",
            text,
            f"set {_SHEDDER}={EXTENSIBLE.pulsar_class}, so that broker.conf names the shedder "
            "that runs",
        ),
        Rule(
            len(runs) > 1,
            "warn",
            text,
            "configure the same shedder on all brokers: the leader's applies, and the leader may "
            "change",
        ),
    )


def check_filters(listed: Sequence[Broker], engine: EngineSettings) -> Finding:
    """Checks that destinations are filtered as the running load manager requires; with the other
    one's filters none is found.
    """
    strategy, counted = engine.entry, engine.filters.load_manager
    if counted == "auto":
        counted = strategy.load_manager
    runs = sorted(
        name
        for name in ("modular", "extensible")
        if any(broker.manager.lower().startswith(name) for broker in listed)
    )
    return evaluate(
        "filters",
        f"destinations are filtered for {counted} brokers",
        Rule(
            bool(runs) and runs != [counted],
            "warn",
            f"{' and '.join(runs)} brokers, but destinations are filtered for {counted} ones "
            f"(shedding.strategy is {strategy.name})",
            f"set filters.load_manager to {next(iter(runs), '')}",
        ),
    )


def check_rivals(
    listed: Sequence[Broker], splitting: bool, shadow: bool, moves_per_hour: int = 0
) -> Iterator[Finding]:
    """Reports whether brokers move and split bundles themselves. `moves_per_hour`: above which
    rounds yield.
    """
    known = [broker for broker in listed if broker.manager]
    shedding = first_of([broker.name for broker in known if broker.sheds], 1)
    key = "loadBalancerAutoBundleSplitEnabled"
    splits = first_of(
        [one.name for one in known if one.balances and one.configuration.get(key) == "true"], 1
    )
    yield evaluate(
        "built-in shedding",
        f"is on at {shedding}, as shadow mode requires" if shedding else "is off",
        Rule(
            bool(shedding) and not shadow,
            "fail",
            f"is on at {shedding}: brokers and executors would move the same bundles",
            f"switch it off: {SWITCH_OFF.format('loadBalancerSheddingEnabled')}; or only compare "
            "with it: rebalancer shadow, doctor --shadow",
        ),
        Rule(
            bool(shedding) and bool(moves_per_hour),
            "warn",
            f"is on at {shedding}, as shadow mode requires, and rounds yield to it "
            f"(rivals.moves_per_hour = {moves_per_hour})",
            "set rivals.moves_per_hour to 0 in shadow mode",
        ),
        Rule(
            shadow and not shedding,
            "warn",
            "is off: shadow mode has no moves to compare with",
            "switch it on",
        ),
    )
    yield evaluate(
        "built-in splitting",
        f"is on at {splits}: brokers split, the job does not" if splits else "is off",
        Rule(
            bool(splits) and splitting,
            "warn",
            f"is on at {splits}, and splitting.enabled too",
            f"{SWITCH_OFF.format(key)}, or set splitting.enabled to false",
        ),
    )
    for broker in known:
        if not broker.balances:
            yield Finding(
                "load balancer",
                "fail",
                f"loadBalancerEnabled is false at {broker.name}: it reports no load",
                "set loadBalancerEnabled=true in broker.conf; shedding stays off by its own key",
            )


def check_rhythm(listed: Sequence[Broker], interval_ms: int) -> Finding:
    """Checks that brokers measure at least once per round."""
    slowest = _slowest(listed, "statsUpdateFrequencyInSecs")
    text = f"brokers measure traffic every {slowest} s, rounds close every {interval_ms / 1000:g} s"
    return evaluate(
        "rhythm",
        text,
        Rule(
            slowest * 1000 > interval_ms,
            "warn",
            text,
            "raise round.interval_ms, or lower statsUpdateFrequencyInSecs: a round without new "
            "figures decides on old ones",
        ),
    )


def check_samples(listed: Sequence[Broker], engine: EngineSettings, key: str) -> Finding:
    """Checks that the strategy counts no measurement of a broker as two samples. `key`: the setting
    with the period of its samples.
    """
    path, seconds = f"shedding.{engine.strategy}.{key}", float(getattr(engine.chosen, key))
    longest = _slowest(listed, "statsUpdateFrequencyInSecs")
    text = f"brokers measure traffic every {longest} s"
    cpu = 60 * _slowest(listed, "loadBalancerHostUsageCheckIntervalMinutes")
    if engine.weights.cpu and cpu:
        text += f" and CPU every {cpu} s"
        longest = max(longest, cpu)
    text += f", {path} = {seconds:g}"
    return evaluate(
        "samples",
        text,
        Rule(
            longest > seconds,
            "warn",
            text,
            f"set {path} to {longest} or more: one measurement may count as several samples",
        ),
    )


def _slowest(listed: Sequence[Broker], key: str) -> int:
    """The largest value of a key of broker.conf, 0 if no broker has it."""
    texts = (broker.configuration.get(key, "") for broker in listed)
    return max((int(text) for text in texts if text.isdecimal()), default=0)
