"""The plan of a demo run: its options, its folder, and the settings file that the job reads."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pulsar_rebalancer.settings.merge_sources import load
from pulsar_rebalancer.settings.settings_file_text import by_table, settings_text
from sinks.durable_files import naming
from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.topic_settings import TopicUri, file_topic
from strategies.errors import SettingsError
from strategies.settings import Mode
from strategies.shedding.registry import SHEDDERS

EngineKind = Literal["spark", "plain"]
TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")
CLUSTER, BROKERS, BUNDLES = "demo", 8, 256
DEFAULT_FOLDER = Path("rebalancer-demo")
SETTINGS_NAME = "demo.toml"
#: Settings that have a line of their own in the demo's output.
_NAMED = ("shedding.strategy", "shedding.mode")


#: For strategies that also spread bundles by number, in addition to the overrides of their entry in
#: the registry.
BY_LOAD_ONLY = {
    "filters.distribute_evenly": (
        False,
        "even distribution counts bundles, not load; the published experiments switch it off",
    )
}


@dataclass(frozen=True, slots=True)
class OnKafka:
    """The Kafka topics of a run; each run has topics of its own."""

    servers: str
    prefix: str
    settings: KafkaSettings


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """One demo run. `rounds`: maximum number of rounds; all files are below `folder`; `requested`:
    dotted path → value from `--set`.
    """

    strategy: str
    mode: Mode
    rounds: int
    seed: int
    engine: EngineKind
    folder: Path
    requested: Mapping[str, Any] = field(default_factory=dict)
    kafka: OnKafka | None = None

    @property
    def settings_file(self) -> Path:
        return self.folder / SETTINGS_NAME

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def log(self) -> Path:
        return self.folder / "job.log"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def overrides(self) -> Mapping[str, tuple[float | bool, str]]:
        """The settings that the demo changes from their defaults: dotted path → value, and why."""
        entry = SHEDDERS[self.strategy]
        overrides = {f"shedding.{entry.name}.{key}": known for key, known in entry.demo.items()}
        if entry.distributes_evenly:
            overrides |= BY_LOAD_ONLY
        return {path: known for path, known in overrides.items() if path not in self.requested}

    def topic(self, name: str) -> Path:
        """The folder of one of the five topics."""
        return self.folder / name

    def topic_uri(self, name: str) -> TopicUri:
        return (
            TopicUri("kafka", self.kafka.servers, f"{self.kafka.prefix}-{name}")
            if self.kafka
            else file_topic(self.topic(name))
        )


def plan_of(
    flags: Sequence[str],
    rounds: int,
    seed: int,
    engine: EngineKind,
    *,
    out: Path | None,
    keep: bool,
    kafka: str | None,
) -> DemoPlan:
    """The demo that the command line asks for. `flags`: its settings as `path=value`. Raises
    SettingsError.
    """
    asked = load(flags=flags)
    chosen = {
        entry.leaf.path: entry.value
        for entry in asked.entries
        if entry.kind != "default" and entry.leaf.path not in _NAMED
    }
    folder = prepare_folder(out, keep, TOPICS if kafka is None else ())
    plan = DemoPlan(asked.engine.strategy, asked.engine.mode, rounds, seed, engine, folder, chosen)
    if kafka is None:
        return plan
    prefix = f"rebalancer-demo-{time.time_ns() // 10**6:x}"
    return replace(plan, kafka=OnKafka(kafka, prefix, asked.connections.kafka))


def prepare_folder(wanted: Path | None, keep: bool, topics: Sequence[str] = TOPICS) -> Path:
    """Absolute path of an empty folder for this run. An earlier demo run in `wanted` is replaced,
    or kept with `keep`.

    `topics`: those that the folder will contain. Raises SettingsError if the folder has files that
    no demo has written.
    """
    folder = (wanted or DEFAULT_FOLDER).expanduser().absolute()
    if keep:
        folder = _first_free(folder)
    if folder.exists() and not folder.is_dir():
        raise SettingsError([f"--out: {folder} is a file; name a folder"])
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / SETTINGS_NAME).is_file():
            raise SettingsError(
                [
                    f"--out: {folder} has files that no demo has written; name an empty or a "
                    "new folder"
                ]
            )
        shutil.rmtree(folder)
    for name in topics:
        (folder / name).mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def write_settings(plan: DemoPlan) -> None:
    """Writes the settings file of the run."""
    with naming(plan.settings_file):
        plan.settings_file.write_text(file_text(plan), encoding="utf-8")


def file_text(plan: DemoPlan) -> str:
    """The settings file: only settings that differ from their defaults, with the reason as a
    comment.
    """
    head = (
        "# Written by `rebalancer demo`; all other settings have their defaults (`rebalancer "
        f"config show --config {SETTINGS_NAME}`)."
    )
    chosen: dict[str, Any] = {
        "shedding.strategy": plan.strategy,
        "shedding.mode": plan.mode,
        **plan.requested,
    }
    chosen |= {path: value for path, (value, _) in plan.overrides.items()}
    chosen |= {f"topics.{name}": str(plan.topic_uri(name)) for name in TOPICS} | {
        "job.checkpoint": str(plan.checkpoint)
    }
    reasons = {path: why for path, (_, why) in plan.overrides.items()}
    return settings_text(head, by_table(chosen), reasons)


def _first_free(folder: Path) -> Path:
    number, candidate = 1, folder
    while candidate.exists() and any(candidate.iterdir()):
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate
