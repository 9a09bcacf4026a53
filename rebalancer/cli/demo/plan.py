"""What a demo run does, where its files lie, and the settings file it hands to the job."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sinks.topics.kafka.settings import KafkaSettings
from sinks.topics.uri import file_topic_uri
from strategies.errors import SettingsError
from strategies.settings import Mode
from strategies.shedding.registry import SHEDDERS

EngineKind = Literal["spark", "plain"]
TOPICS = ("telemetry", "commands", "rounds", "rejected", "outcomes")
BROKERS, BUNDLES = 8, 256
DEFAULT_FOLDER = Path("rebalancer-demo")
SETTINGS_NAME = "demo.toml"


@dataclass(frozen=True, slots=True)
class Override:
    """A setting that the demo does not leave at its default, and why."""

    path: str
    value: float | bool
    why: str

    @property
    def key(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(".")[2]


#: With every strategy, beside what its entry in the registry names.
EVERYWHERE = Override(
    "filters.distribute_evenly", False, "even distribution counts bundles, not load; the published experiments switch it off"
)


@dataclass(frozen=True, slots=True)
class OnKafka:
    """Where the topics of a run lie that uses Kafka; each run has topics of its own."""

    servers: str
    prefix: str
    settings: KafkaSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """One demo run. `rounds` is the most it may take; all its files are below `folder`; `wishes`: dotted path → value asked for."""

    strategy: str
    mode: Mode
    rounds: int
    seed: int
    engine: EngineKind
    folder: Path
    wishes: Mapping[str, Any] = field(default_factory=dict)
    cluster: str = "demo"
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
    def overrides(self) -> tuple[Override, ...]:
        own = (Override(f"shedding.{self.strategy}.{key}", value, why) for key, (value, why) in SHEDDERS[self.strategy].demo.items())
        return tuple(one for one in (*own, EVERYWHERE) if one.path not in self.wishes)

    def topic(self, name: str) -> Path:
        """The folder of one of the five topics."""
        return self.folder / name

    def topic_uri(self, name: str) -> str:
        return f"kafka://{self.kafka.servers}/{self.kafka.prefix}-{name}" if self.kafka else file_topic_uri(self.topic(name))


def prepare_folder(wanted: Path | None, keep: bool, topics: Sequence[str] = TOPICS) -> Path:
    """An empty folder for this run, absolute. An earlier demo in its place is replaced, or left alone with `keep`.

    `topics`: those that are to lie in it. Raises SettingsError when the folder holds anything that no demo has written.
    """
    folder = (wanted or DEFAULT_FOLDER).expanduser().absolute()
    if keep:
        folder = _first_free(folder)
    if folder.exists() and not folder.is_dir():
        raise SettingsError([f"--out: {folder} is a file; name a folder"])
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / SETTINGS_NAME).is_file():
            raise SettingsError([f"--out: {folder} holds files that no demo has written; name an empty or a new folder"])
        shutil.rmtree(folder)
    for name in topics:
        (folder / name).mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


def write_settings(plan: Plan) -> None:
    """Writes the settings file of the run."""
    plan.settings_file.write_text(settings_text(plan), encoding="utf-8")


def settings_text(plan: Plan) -> str:
    """The settings file as TOML: only what differs from the defaults, with the reason where there is one."""
    head = f"# Written by `rebalancer demo`; what is not named here has its default (`rebalancer config show --config {SETTINGS_NAME}`)."
    chosen: dict[str, Any] = {"shedding.strategy": plan.strategy, "shedding.mode": plan.mode, **plan.wishes}
    chosen |= {one.path: one.value for one in plan.overrides}
    chosen |= {f"topics.{name}": plan.topic_uri(name) for name in TOPICS} | {"job.checkpoint": str(plan.checkpoint)}
    why = {one.path: f"# {one.why}" for one in plan.overrides}
    lines = [head]
    for table in dict.fromkeys(path.rpartition(".")[0] for path in chosen):
        lines += ["", f"[{table}]"]
        for path, value in chosen.items():
            if path.rpartition(".")[0] == table:
                lines += [*([why[path]] if path in why else []), f"{path.rpartition('.')[2]} = {_toml(value)}"]
    return "\n".join([*lines, ""])


def _toml(value: Any) -> str:
    """A string, number, truth or list of them as TOML; JSON's escapes are legal in it."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _first_free(folder: Path) -> Path:
    number, candidate = 1, folder
    while candidate.exists() and any(candidate.iterdir()):
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate
