"""Spark's Kafka connector: four jars that PySpark does not include, their folder, and the settings
of a session. Imports no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from strategies.settings import Setting
from streaming.jars.download import MAVEN_CENTRAL, Jar, cache_folder, fetch, present, read_lock

_LOCK = Path(__file__).with_name("kafka_jars.json")


@dataclass(frozen=True, slots=True)
class JarSettings:
    """Source of Spark's Kafka connector; not used without Kafka topics."""

    folder: Annotated[
        str,
        Setting(
            "Folder with the jars of the Kafka connector (rebalancer jars fetch); empty = "
            "downloaded once into the user's cache"
        ),
    ] = ""
    maven_url: Annotated[str, Setting("Maven repository for downloading jars")] = MAVEN_CENTRAL


def connector_jars() -> tuple[Jar, ...]:
    """The jars of the connector, as locked."""
    return read_lock(_LOCK)


def connector_settings(
    settings: JarSettings, log: Callable[[str], None] = lambda _: None
) -> Mapping[str, str]:
    """Settings that give a Spark session the connector; downloads missing jars. Raises JarsMissing,
    SettingsError.
    """
    return {"spark.jars": ",".join(str(file) for file in connector_files(settings, log))}


def connector_files(
    settings: JarSettings, log: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """The locked jars as files; downloads missing ones. Raises JarsMissing, SettingsError."""
    if settings.folder:
        return present(connector_jars(), Path(settings.folder).absolute())
    return fetch(connector_jars(), cache_folder("spark-kafka"), settings.maven_url, log)
