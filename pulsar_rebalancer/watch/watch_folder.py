"""The folder of a watch: its topics, state, logs, and the settings file of all its processes."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pulsar_rebalancer.settings.merge_sources import Settings, load
from pulsar_rebalancer.settings.settings_file_text import by_table, settings_text, toml_key
from sinks.collector.open_cluster import DiscoveredCluster
from sinks.durable_files import naming
from sinks.pulsar_api.connection_tls_and_token import PulsarSettings
from sinks.topics.topic_settings import Topics, file_topic_uri
from strategies.errors import SettingsError

DEFAULT_FOLDER, DEMO_FOLDER = Path("rebalancer-watch"), Path("rebalancer-watch-demo")
_SETTINGS = "watch.toml"
_HEAD = (
    "# Written by `rebalancer watch`; all other settings have their defaults (`rebalancer config "
    f"show --config {_SETTINGS}`)."
)
#: Telemetry is kept for this time, in files of 64 MiB.
KEEP_MS = 2 * 86_400_000


@dataclass(frozen=True, slots=True)
class WatchFolder:
    """Absolute path of the folder, and of what is in it."""

    path: Path

    @property
    def settings_file(self) -> Path:
        return self.path / _SETTINGS

    @property
    def positions(self) -> Path:
        """The folder of the watch's positions on its topics."""
        return self.path / "watch"

    def log(self, command: str) -> Path:
        """The log of a process."""
        return self.path / "logs" / f"{command}.log"

    def places(self) -> dict[str, str]:
        """Dotted path → value of the settings that name a topic or a folder."""
        topics = {
            f"topics.{field.name}": file_topic_uri(self.path / "topics" / field.name)
            for field in fields(Topics)
        }
        return topics | {
            "job.checkpoint": str(self.path / "checkpoint"),
            "executor.state": str(self.path / "executor"),
            "notices.state": str(self.path / "notices"),
        }


@contextmanager
def opened_folder(wanted: Path, *, empty: bool = False) -> Iterator[WatchFolder]:
    """Creates the folder and locks it against a second watch. `empty`: an earlier watch in it is
    deleted.

    Raises SettingsError for a folder that is in use, or has files that no watch has written.
    """
    path = wanted.expanduser().absolute()
    folder = WatchFolder(path)
    _check_ours(folder)
    path.mkdir(parents=True, exist_ok=True)
    lock = os.open(path / ".watch", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SettingsError(
                [f"--folder: another watch uses {path}; stop it, or name another folder"]
            ) from error
        for entry in path.iterdir() if empty else ():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != ".watch":
                entry.unlink()
        (path / "logs").mkdir(exist_ok=True)
        (path / ".gitignore").write_text("*\n", encoding="utf-8")
        yield folder
    finally:
        os.close(lock)


def _check_ours(folder: WatchFolder) -> None:
    path = folder.path
    if path.exists() and not path.is_dir():
        raise SettingsError([f"--folder: {path} is a file; name a folder"])
    if path.is_dir() and any(path.iterdir()) and not (path / ".watch").exists():
        raise SettingsError(
            [f"--folder: {path} has files that no watch has written; name an empty or a new folder"]
        )


def check_same_clusters(folder: WatchFolder, names: Sequence[str]) -> None:
    """Raises SettingsError if the folder has the records of other clusters."""
    if not folder.settings_file.exists():
        return
    before = [one.cluster for one in load(folder.settings_file).clusters]
    if sorted(before) != sorted(names):
        raise SettingsError(
            [
                f"--folder: {folder.path} is the watch of {', '.join(before)}, not of "
                f"{', '.join(names)}; name another folder"
            ]
        )


def write_settings(
    folder: WatchFolder, settings: Settings, more: Mapping[str, Any], named: bool
) -> None:
    """Writes the settings file of all processes: what the sources give, `more` (dotted path →
    value), and the places in the folder. `named`: the clusters are tables of their own.
    """
    given = {
        entry.leaf.path: entry.value
        for entry in settings.entries
        if entry.kind != "default" and entry.value is not None
    }
    tables = by_table({**given, **more, **folder.places()})
    if named:
        for cluster in settings.clusters:
            tables[f"clusters.{toml_key(cluster.cluster)}"] = _changed(cluster)
    with naming(folder.settings_file):
        folder.settings_file.write_text(settings_text(_HEAD, tables), encoding="utf-8")


def _changed(cluster: PulsarSettings) -> dict[str, Any]:
    """Settings of a named cluster that differ from their defaults; its name is that of the
    table.
    """
    return {
        field.name: value
        for field in fields(cluster)
        if (value := getattr(cluster, field.name)) != field.default and field.name != "cluster"
    }


def settings_of(cluster: DiscoveredCluster) -> dict[str, Any]:
    """The settings that a discovered cluster adds."""
    return {
        "pulsar.cluster": cluster.pulsar.cluster,
        "pulsar.admin_urls": cluster.pulsar.admin_urls,
        "filters.load_manager": cluster.load_manager,
    }
