"""Downloads the jars of a lock (coordinates, size, SHA-256) from a Maven repository over HTTPS,
without Maven, and verifies them: those of Spark's Kafka connector, four jars that PySpark does not
include. Imports no Spark.

A file gets its final name only when it is complete and its digest is right. Two processes that want
the same file both download it.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from strategies.errors import RebalancerError, SettingsError
from strategies.settings import Setting

if TYPE_CHECKING:
    import httpx

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_AT_ONCE = 8
_ATTEMPTS = 4
_TIMEOUT_S = 30.0
_LOCK = Path(__file__).with_name("kafka_jars.json")


class JarsMissing(RebalancerError):
    """Jars could not be downloaded, or differ from the lock."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a lock. `coordinates`: group, artifact, version and optionally classifier."""

    coordinates: tuple[str, ...]
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """File name, in a repository and in our folders."""
        return "-".join(self.coordinates[1:]) + ".jar"

    @property
    def path(self) -> str:
        """Path in a Maven repository."""
        group, artifact, version = self.coordinates[:3]
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.name}"


def read_lock(file: Path) -> tuple[Jar, ...]:
    """Returns the jars of a lock, in its order."""
    return tuple(
        Jar(tuple(entry["jar"].split(":")), entry["bytes"], entry["sha256"])
        for entry in json.loads(file.read_text("utf-8"))["jars"]
    )


def cache_folder(name: str) -> Path:
    """Returns the folder of the user's downloaded jars: below XDG_CACHE_HOME, or ~/.cache."""
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "pulsar-rebalancer"
        / name
    )


def present(jars: Iterable[Jar], folder: Path) -> list[Path]:
    """Returns the files of all jars, verified against the lock. Raises JarsMissing with the first
    that is missing or different.
    """
    files = []
    for jar in jars:
        file = folder / jar.name
        if not file.is_file():
            raise JarsMissing(
                f"{file} does not exist; fill the folder with: rebalancer jars fetch {folder}"
            )
        if _digest(file) != jar.sha256:
            raise JarsMissing(
                f"{file} is not the jar of the lock (its digest differs); delete it, then: "
                f"rebalancer jars fetch {folder}"
            )
        files.append(file)
    return files


def fetch(
    jars: Sequence[Jar],
    folder: Path,
    base_url: str = MAVEN_CENTRAL,
    log: Callable[[str], None] = lambda _: None,
    pause_s: float = 1.0,
) -> list[Path]:
    """Returns the files of all jars in `folder`; downloads missing ones.

    `log`: gets one line before a download begins; `pause_s`: before the second attempt, longer
    before each further one.
    An existing file of the right size is not verified again: it was before it got its name. Raises
    JarsMissing, SettingsError.
    """
    files = {folder / jar.name: jar for jar in jars}
    wanted = [
        jar for file, jar in files.items() if not file.is_file() or file.stat().st_size != jar.size
    ]
    if wanted:
        log(
            f"downloading {len(wanted)} jars "
            f"({sum(jar.size for jar in wanted) / 2**20:.0f} MiB) from {base_url} into {folder}"
        )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = TemporaryDirectory(prefix=".download-", dir=folder)
        except OSError as error:
            raise SettingsError(
                [
                    f"{folder} cannot be written ({error.strerror}); name a folder of yours as "
                    "jars.folder"
                ]
            ) from error
        with temporary:
            _download_all(wanted, Path(temporary.name), base_url.rstrip("/"), pause_s)
    return [*files]


def _download_all(jars: Sequence[Jar], folder: Path, base_url: str, pause_s: float) -> None:
    """Downloads jars by way of a temporary `folder` to the one around it."""
    import httpx

    try:
        client = httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True)
    except (ImportError, ValueError, httpx.InvalidURL, OSError) as error:
        raise JarsMissing(
            f"{base_url} cannot be asked for jars ({error}): check HTTPS_PROXY, HTTP_PROXY, "
            "ALL_PROXY and SSL_CERT_FILE in the environment; the proxy must be an HTTP proxy"
        ) from error
    with client, ThreadPoolExecutor(_AT_ONCE) as pool:
        # The largest first: the last one to finish is then a small one.
        largest_first = sorted(jars, key=lambda jar: -jar.size)
        list(pool.map(partial(_download, client, folder, base_url, pause_s), largest_first))


def _download(
    client: "httpx.Client", folder: Path, base_url: str, pause_s: float, jar: Jar
) -> None:
    import httpx

    url = f"{base_url}/{jar.path}"
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _take(client, url, jar, folder / jar.name)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise SettingsError(
                [
                    f"jars.maven_url: {url} is not a URL ({error}); write {MAVEN_CENTRAL} or "
                    "that of your mirror"
                ]
            ) from error
        except (httpx.HTTPError, OSError) as error:
            if attempt == _ATTEMPTS:
                raise _unreachable(jar, url, str(error) or type(error).__name__) from error
            time.sleep(pause_s * attempt)
        else:
            return


def _take(client: "httpx.Client", url: str, jar: Jar, part: Path) -> None:
    with client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response:
        if response.is_client_error:
            raise _unreachable(jar, url, f"the server answers {response.status_code}")
        response.raise_for_status()
        with part.open("wb") as file:
            for block in response.iter_raw():
                file.write(block)
    if _digest(part) != jar.sha256:
        raise JarsMissing(
            f"{url} is not the jar of the lock (its digest differs); ask the operator of the "
            "mirror, or set jars.maven_url to another"
        )
    part.replace(part.parents[1] / jar.name)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unreachable(jar: Jar, url: str, why: str) -> JarsMissing:
    return JarsMissing(
        f"{jar.name} could not be downloaded from {url} ({why}). Without network: run "
        "`rebalancer jars fetch DIR` on another machine, "
        "copy DIR here and set jars.folder to it; with a mirror: set jars.maven_url"
    )


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
    """Returns the jars of the connector, as locked."""
    return read_lock(_LOCK)


def connector_files(
    settings: JarSettings, log: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Returns the locked jars as files; downloads missing ones. Raises JarsMissing and
    SettingsError.
    """
    if settings.folder:
        return present(connector_jars(), Path(settings.folder).absolute())
    return fetch(connector_jars(), cache_folder("spark-kafka"), settings.maven_url, log)
