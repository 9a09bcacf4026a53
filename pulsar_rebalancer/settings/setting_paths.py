"""Every setting as a leaf with a dotted path, read from the settings classes of the other
packages; and the settings that were removed, with what holds instead.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args, get_type_hints

from pulsar_rebalancer.settings.page_address_and_log_settings import LogSettings, ServeSettings
from sinks.collector.settings import CollectorSettings
from sinks.executor.settings import ExecutorSettings
from sinks.metrics.settings import MetricsSettings
from sinks.notices.settings import NoticeSettings
from sinks.topics.topic_settings import Connections, TopicUri
from strategies.fold.engine import EngineSettings
from strategies.java.pulsar_versions_and_defaults import (
    PULSAR_VERSION,
    RELEASES,
    PulsarRelease,
    default_in,
    follows_release,
)
from strategies.placement.registry import PLACERS
from strategies.registry import Registry
from strategies.settings import Mode, Setting
from strategies.shedding.contract import SheddingStrategy
from strategies.shedding.registry import SHEDDERS
from streaming.settings import JobSettings

Shedders = Registry[SheddingStrategy]
_LOSS = "set job.fail_on_data_loss, which is for telemetry on any topic"
_NOTICE = "a notice is sent up to 20 times within about an hour, each time for up to 10 s"
_QUOTA = "raise bulkhead.records or bulkhead.bytes for a cluster that needs more"
_CALLS = "a call that can be repeated has three attempts, within pulsar.deadline_ms"
_PAGE = "the page has the last 500 rounds of each cluster, of the last day"
#: Dotted path → the version without it, and what holds instead.
REMOVED: Mapping[str, str] = {
    path: f"was removed in 0.2.0: {sentence}"
    for path, sentence in {
        "bulkhead.bytes_per_broker": _QUOTA,
        "bulkhead.first_bytes": _QUOTA,
        "bulkhead.records_per_broker": _QUOTA,
        "collector.keep_ms": "published load is valid for 30 minutes, as in Pulsar",
        "collector.max_concurrent": "64 brokers are asked at a time",
        "collector.most_passes_off": "at most 8 passes in a row skip a failing broker",
        "collector.policies_interval_ms": "policies are read after 15 passes, or 5 minutes if "
        "that is sooner",
        "collector.policies_repeat_ms": "unchanged policies are published every 15 minutes",
        "collector.state": "the brokers that a process has listed stand in while it runs",
        "executor.breaker_failures": "5 failed moves within 10 minutes pause the executor",
        "executor.breaker_ms": "5 failed moves within 10 minutes pause the executor",
        "executor.pause_file": "the file is `pause` in the folder executor.state",
        "executor.unowned_hold_ms": "a moved bundle without an owner holds back others for at most "
        "2 minutes",
        "files.fail_on_data_loss": _LOSS,
        "filters.enabled": "policies and filters always apply",
        "jars.packages": "fill a folder with `rebalancer jars fetch` and name it as jars.folder, "
        "or set jars.maven_url",
        "job.log_bytes": "logs become an older file at 16 MiB",
        "job.max_bytes_per_batch": "set job.max_records_per_batch; a micro-batch from files or "
        "Pulsar has at most 128 MiB",
        "job.segment_bytes": "segments of file topics have 64 MiB",
        "job.start_attempts": "set job.start_timeout_ms; the job makes at least three attempts",
        "kafka.fail_on_data_loss": _LOSS,
        "notices.attempts": _NOTICE,
        "notices.backoff_ms": _NOTICE,
        "notices.quiet_ms": "outcomes of the same reason are counted for an hour after a notice",
        "notices.silent_intervals": "a cluster is silent after 5 times round.interval_ms",
        "notices.timeout_ms": _NOTICE,
        "pulsar.attempts": _CALLS,
        "pulsar.backoff_ms": _CALLS,
        "pulsar.connect_timeout_ms": "connecting takes at most 3 s, within pulsar.deadline_ms",
        "pulsar.fail_on_data_loss": _LOSS,
        "round.clock_recovery_ms": "the clock of a cluster is reset after 15 minutes",
        "serve.history_ms": _PAGE,
        "serve.rounds": _PAGE,
        "throttling.per_round": "a round advises at most 10 dispatch limits",
        "throttling.repeat_ms": "a bundle gets such advice once an hour at most",
        "wire.kept_bytes": "the rejected topic keeps the first 64 KiB of a too large record",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: its dotted path, Python type, default and description."""

    path: str
    kind: Any
    default: Any
    setting: Setting

    @property
    def section(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def key(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def env(self) -> str:
        """The environment variable of this setting."""
        return "REBALANCER_" + self.path.replace(".", "__").upper()

    def default_in(self, release: PulsarRelease) -> Any:
        """The default with this Pulsar release; `default` is that of the oldest one."""
        return default_in(release, self.setting, self.default)

    @property
    def defaults(self) -> Mapping[PulsarRelease, Any]:
        """Release → default, where they differ; otherwise empty."""
        if not follows_release(self.setting):
            return {}
        return {release: self.default_in(release) for release in RELEASES}


@cache
def sections(shedders: Shedders = SHEDDERS) -> Mapping[str, type]:
    """Dotted table name → the class that its keys build, in reading order."""
    engine, connections = dict(nested(EngineSettings)), dict(nested(Connections))
    tables = {
        "round": engine.pop("round"),
        "weights": engine.pop("weights"),
        **{f"shedding.{name}": entry.settings for name, entry in shedders.items()},
        "placement": engine.pop("destinations"),
        **{f"placement.{name}": entry.settings for name, entry in PLACERS.items()},
        **engine,
        # In the order of the settings file: [jars] is before [signing].
        **{name: cls for name, cls in connections.items() if name != "signing"},
        "jars": nested(JobSettings)["jars"],
        "signing": connections["signing"],
        "job": JobSettings,
        "collector": CollectorSettings,
        "executor": ExecutorSettings,
        "serve": ServeSettings,
        "metrics": MetricsSettings,
        "notices": NoticeSettings,
        "log": LogSettings,
    }
    return MappingProxyType(tables)


@cache
def all_leaves(shedders: Shedders = SHEDDERS) -> tuple[Leaf, ...]:
    """All settings, those of `shedders` included. Cached: reading annotations takes longer than
    reading a settings file.
    """
    found = {section: list(leaves_of(cls, section)) for section, cls in sections(shedders).items()}
    found["placement"] = [_placement(), *found["placement"]]
    found["pulsar"] = [_version(), *found["pulsar"]]
    ordered = {
        "round": found.pop("round"),
        "weights": found.pop("weights"),
        "shedding": _choice(shedders),
        **found,
    }
    return tuple(leaf for group in ordered.values() for leaf in group)


def leaves_of(cls: type, section: str) -> Iterator[Leaf]:
    """The annotated fields of a settings class; fields without a `Setting` are not settings. A
    topic is written as its URI.
    """
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        extras = get_args(hints[field.name])[1:]
        setting = next((extra for extra in extras if isinstance(extra, Setting)), None)
        if setting is not None:
            kind = get_args(hints[field.name])[0]
            kind, default = (str, str(field.default)) if kind is TopicUri else (kind, field.default)
            yield Leaf(f"{section}.{field.name}", kind, default, setting)


@cache
def nested(cls: type) -> Mapping[str, type]:
    """Settings classes inside a settings class; each is a table named after its field."""
    hints = get_type_hints(cls)
    found = {
        field.name: hints[field.name] for field in fields(cls) if is_dataclass(hints[field.name])
    }
    return MappingProxyType(found)


def _choice(shedders: Shedders) -> list[Leaf]:
    """The shedding strategy; the settings of each strategy are in tables beside these two keys."""
    defaults = EngineSettings()
    return [
        Leaf(
            "shedding.strategy",
            Literal[tuple(shedders)],
            defaults.strategy,
            Setting(
                "The rule that selects bundles to move", pulsar="loadBalancerLoadSheddingStrategy"
            ),
        ),
        Leaf(
            "shedding.mode",
            Mode,
            defaults.mode,
            Setting(
                "`parity`: exactly as Pulsar's class, with its defects; `fixed`: with known "
                "defects repaired"
            ),
        ),
    ]


def _version() -> Leaf:
    """The Pulsar release; of one job, not of one cluster."""
    return Leaf(
        PULSAR_VERSION,
        Literal[("auto", *RELEASES)],
        "auto",
        Setting(
            "Pulsar release whose defaults and `parity` rules apply; auto: that of the oldest "
            "broker in the telemetry, 4.2 if none names its version"
        ),
    )


def _placement() -> Leaf:
    """The placement strategy; the settings of each placement are in tables beside this key."""
    return Leaf(
        "placement.strategy",
        Literal[("auto", "none", *PLACERS)],
        EngineSettings().placement,
        Setting(
            "The rule that selects destinations; auto: Pulsar's usual one for the shedding "
            "strategy; none: Pulsar selects",
            pulsar="loadBalancerLoadPlacementStrategy",
        ),
    )
