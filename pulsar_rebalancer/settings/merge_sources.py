"""Merges all sources into checked settings; all complaints are raised together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pulsar_rebalancer.settings.check_values import (
    about_paths,
    about_value,
    adapter,
    idle_placement,
    idle_tables,
)
from pulsar_rebalancer.settings.page_address_and_log_settings import (
    LogSettings,
    ServeSettings,
    serve_address,
)
from pulsar_rebalancer.settings.setting_paths import (
    Leaf,
    Shedders,
    all_leaves,
    nested,
    sections,
)
from pulsar_rebalancer.settings.value_sources import (
    Assignment,
    Kind,
    SettingEntry,
    from_environment,
    from_file,
    from_flags,
    named_complaint,
    split_by_cluster,
)
from sinks.collector.settings import CollectorSettings
from sinks.executor.settings import ExecutorSettings, admission_rules
from sinks.metrics.settings import MetricsSettings, listen_address
from sinks.notices.settings import NoticeSettings, check_notices
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.topic_settings import Connections, Topics, TopicUri, parse_topic
from strategies.errors import SettingsError, raise_complaints
from strategies.figures.texts_of_counts_names_and_ages import counted
from strategies.fold.engine import Engine, EngineSettings, placement_of
from strategies.java.pulsar_versions_and_defaults import PULSAR_VERSION, RELEASES, PulsarRelease
from strategies.shedding.registry import SHEDDERS
from streaming.settings import JobSettings, check_master_form


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings: as entries, and as the objects of the other packages. `clusters`: the named
    ones, or [pulsar] if there are none.
    """

    entries: tuple[SettingEntry, ...]
    engine: EngineSettings
    connections: Connections
    job: JobSettings
    collector: CollectorSettings
    executor: ExecutorSettings
    metrics: MetricsSettings
    notices: NoticeSettings
    log: LogSettings
    serve: ServeSettings
    clusters: tuple[PulsarSettings, ...]
    #: The settings file, if one is named.
    file: Path | None = None

    @property
    def source(self) -> str:
        """The sources of the values, as a phrase for people."""
        places = [str(self.file) if self.file is not None else "no settings file"]
        nouns: Mapping[Kind, str] = {"env": "environment variable", "flag": "flag"}
        for kind, noun in nouns.items():
            number = sum(entry.kind == kind for entry in self.entries)
            places += [counted(number, noun)] if number else []
        return ", ".join(places)

    def value(self, path: str) -> Any:
        """The value of a setting by its dotted path. Raises KeyError for unknown paths."""
        return {entry.leaf.path: entry.value for entry in self.entries}[path]

    @property
    def release_is_open(self) -> bool:
        """True if the telemetry decides on the Pulsar release (`pulsar.version = "auto"`)."""
        return bool(self.value(PULSAR_VERSION) == "auto")

    def in_release(self, release: PulsarRelease) -> "Settings":
        """The settings with the defaults and the rules of this Pulsar release; values that a source
        gives stay.
        """
        entries = tuple(
            _default(entry.leaf, release) if entry.kind == "default" else entry
            for entry in self.entries
        )
        return replace(
            self, entries=entries, engine=_engine(entries, self.engine.shedders, release)
        )

    @property
    def warnings(self) -> list[str]:
        """One sentence per table with settings of a strategy that does not run, while no source
        names a strategy, and about a placement that does not place.
        """
        return [*idle_tables(self.entries, self.engine), *idle_placement(self.engine)]


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    shedders: Shedders = SHEDDERS,
) -> Settings:
    """Loads settings; flags override the environment, the environment the file, the file defaults.
    SettingsError has all complaints.

    `shedders`: the known strategies; a program adds its own to the registry with
    `SHEDDERS.extended(...)`.
    """
    leaves = all_leaves(shedders)
    from_env, env_complaints = from_environment(environment or {}, leaves)
    from_set, set_complaints = from_flags(flags, leaves)
    given = [*(from_file(file) if file is not None else []), *from_env, *from_set]
    found = resolved(given, [*env_complaints, *set_complaints], shedders)
    return replace(found, file=file)


def resolved(
    given: Sequence[Assignment], complained: Sequence[str] = (), shedders: Shedders = SHEDDERS
) -> Settings:
    """Settings from assignments; later ones override earlier ones: first the Pulsar release, then
    its defaults and the values over them. SettingsError has all complaints, `complained` included.
    """
    leaves = all_leaves(shedders)
    common, named = split_by_cluster(given)
    found = [*about_paths(common, leaves), *complained]
    release = _release(common)
    entries, wrong = _merge(common, leaves, release)
    found += wrong or _broken_rules(entries, shedders, release)
    topics = _topics(entries, found)
    clusters = [_cluster(name, common, own, found) for name, own in named.items()]
    raise_complaints(found)
    job = _build("job", entries, jars=_build("jars", entries))
    lossless = {"fail_on_data_loss": job.fail_on_data_loss}
    loss = dict.fromkeys(("files", "kafka", "pulsar"), lossless)
    connections = Connections(
        topics=topics,
        **{
            name: _build(name, entries, **loss.get(name, {}))
            for name in nested(Connections)
            if name != "topics"
        },
    )
    known = tuple(cluster for cluster in clusters if cluster is not None) or (connections.pulsar,)
    return Settings(
        entries,
        _engine(entries, shedders, release),
        connections,
        replace(job, connections=connections),
        clusters=known,
        **{
            section: _build(section, entries)
            for section in ("collector", "executor", "metrics", "notices", "log", "serve")
        },
    )


def _cluster(
    name: str, common: Sequence[Assignment], own: Sequence[Assignment], found: list[str]
) -> PulsarSettings | None:
    """[pulsar] with the values of [clusters.NAME] over it; adds complaints to `found`."""
    leaves = tuple(
        leaf for leaf in all_leaves() if leaf.section == "pulsar" and leaf.path != PULSAR_VERSION
    )
    if any(one.path == PULSAR_VERSION for one in own):
        found.append(
            f"clusters.{name}.version: all clusters of a job have one version; set {PULSAR_VERSION}"
            ", or run a job of its own for clusters of another version"
        )
        own = [one for one in own if one.path != PULSAR_VERSION]
    wrong = about_paths(own, leaves)
    entries, values = _merge(
        [*(one for one in common if one.path.startswith("pulsar.")), *own], leaves, RELEASES[0]
    )
    found += [named_complaint(name, complaint) for complaint in wrong or values]
    made: PulsarSettings | None = None if wrong or values else _build("pulsar", entries)
    return made


def _merge(
    given: Sequence[Assignment], leaves: tuple[Leaf, ...], release: PulsarRelease
) -> tuple[tuple[SettingEntry, ...], list[str]]:
    """All entries, or none of them and complaints about wrong values."""
    newest = {assignment.path: assignment for assignment in given}
    entries, wrong = list[SettingEntry](), list[str]()
    for leaf in leaves:
        one = newest.get(leaf.path)
        if one is None:
            entries.append(_default(leaf, release))
            continue
        try:
            entries.append(
                SettingEntry(leaf, adapter(leaf).validate_python(one.value), one.kind, one.source)
            )
        except ValidationError as error:
            wrong.append(about_value(error, leaf, one.source))
    if wrong:
        return (), wrong
    return tuple(entries), []


def _release(given: Sequence[Assignment]) -> PulsarRelease:
    """The release whose defaults apply: the oldest one for `auto`, as long as no telemetry is read,
    and for a value that is complained about later.
    """
    named = [one.value for one in given if one.path == PULSAR_VERSION]
    return named[-1] if named and named[-1] in RELEASES else RELEASES[0]


def _default(leaf: Leaf, release: PulsarRelease) -> SettingEntry:
    source = f"default of {release}" if leaf.defaults else ""
    return SettingEntry(leaf, leaf.default_in(release), "default", source)


def _broken_rules(
    entries: Sequence[SettingEntry], shedders: Shedders, release: PulsarRelease
) -> list[str]:
    """Checks beyond single values: rules between the settings of a strategy, and lists."""
    found: list[str] = []
    engine = cache(lambda: _engine(entries, shedders, release))
    for check in (
        lambda: Engine(engine()),
        lambda: engine().entry.check_samples(engine().chosen, engine().round),
        lambda: admission_rules(_build("executor", entries)),
        lambda: check_master_form(_build("job", entries)),
        lambda: listen_address(_build("metrics", entries)),
        lambda: check_notices(_build("notices", entries)),
        lambda: serve_address(_build("serve", entries)),
    ):
        try:
            check()
        except SettingsError as error:
            found += error.complaints
    return found


def _topics(entries: Sequence[SettingEntry], found: list[str]) -> Topics:
    """The topics, parsed here and nowhere else; complaints about them are added to `found`."""
    topics: dict[str, TopicUri] = {}
    for entry in entries:
        if entry.leaf.section != "topics":
            continue
        try:
            topics[entry.leaf.key] = parse_topic(entry.value)
        except SettingsError as error:
            found += [
                f"{entry.leaf.path}: {complaint.rstrip('.')} ({entry.source or 'default'})"
                for complaint in error.complaints
            ]
    return Topics(**topics)


def _engine(
    entries: Sequence[SettingEntry], shedders: Shedders, release: PulsarRelease
) -> EngineSettings:
    values = {entry.leaf.path: entry.value for entry in entries}
    strategy = shedders.named(values["shedding.strategy"])
    engine = EngineSettings(
        strategy=strategy.name,
        mode=values["shedding.mode"],
        pulsar_version=release,
        shedding=_built(strategy.settings, f"shedding.{strategy.name}", entries),
        weights=_build("weights", entries),
        round=_build("round", entries),
        placement=values["placement.strategy"],
        destinations=_build("placement", entries),
        filters=_build("filters", entries),
        limits=_build("limits", entries),
        splitting=_build("splitting", entries),
        throttling=_build("throttling", entries),
        drains=_build("drains", entries),
        rivals=_build("rivals", entries),
        bulkhead=_build("bulkhead", entries),
        capacities=_build("capacities", entries),
        shedders=shedders,
    )
    placed_by, _ = placement_of(engine)
    placing = None if placed_by == "none" else _build(f"placement.{placed_by}", entries)
    return replace(engine, placing=placing)


def _build(section: str, entries: Sequence[SettingEntry], **more: Any) -> Any:
    return _built(sections()[section], section, entries, **more)


def _built(cls: type, section: str, entries: Sequence[SettingEntry], **more: Any) -> Any:
    """The object of a table; skips keys that select a class."""
    known = {field.name for field in fields(cls)}
    values = {
        entry.leaf.key: entry.value
        for entry in entries
        if entry.leaf.section == section and entry.leaf.key in known
    }
    return cls(**values, **more)
