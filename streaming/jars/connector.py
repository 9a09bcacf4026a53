"""Spark's Kafka connector: four jars that PySpark does not carry, where they lie, and how a session gets them. No Spark here."""

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
    """Where Spark's Kafka connector comes from; without Kafka topics nobody asks."""

    folder: Annotated[
        str, Setting("Folder with the jars of the Kafka connector (rebalancer jars fetch); empty = fetched once into the user's cache")
    ] = ""
    packages: Annotated[
        str, Setting("Instead of the locked jars: Maven coordinates that Spark resolves itself (spark.jars.packages), with commas")
    ] = ""
    maven_url: Annotated[str, Setting("Maven repository that jars are fetched from")] = MAVEN_CENTRAL


def connector_jars() -> tuple[Jar, ...]:
    """The jars of the connector, as locked."""
    return read_lock(_LOCK)


def connector_settings(settings: JarSettings, say: Callable[[str], None] = lambda _: None) -> Mapping[str, str]:
    """Settings with which a Spark session has the connector; fetches what is missing. Raises JarsMissing, SettingsError."""
    if settings.packages:
        return {"spark.jars.packages": settings.packages}
    if settings.folder:
        files = present(connector_jars(), Path(settings.folder).absolute())
    else:
        files = fetch(connector_jars(), cache_folder("spark-kafka"), settings.maven_url, say)
    return {"spark.jars": ",".join(str(file) for file in files)}
