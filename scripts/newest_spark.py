"""Reports whether a newer Spark has everything that the job needs: PySpark on the package index,
and the jars of the Kafka connector in Maven's repository.

Exit code: 0 if the locked version is the newest usable one, 3 if a newer one is usable, 1 if index
or repository did not answer.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata

from strategies.errors import RebalancerError
from streaming.jars.locked_jars import MAVEN_CENTRAL, Jar, connector_jars

_CONNECTOR = "spark-sql-kafka-0-10_2.13"
_TIMEOUT_S = 30.0


class NoAnswer(RebalancerError):
    """The index or the repository did not answer, so nothing is known."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A newer version of Spark. `missing`: file names of jars that are not published."""

    version: str
    missing: tuple[str, ...]

    def line(self) -> str:
        """One line of text."""
        if self.missing:
            return f"pyspark {self.version}: not usable, {', '.join(self.missing)} is not published"
        return (
            f"pyspark {self.version}: has all jars; set it in pyproject.toml and, with size and "
            "SHA-256 of the connector, in streaming/jars/kafka_jars.json, then run make lock and "
            "make test"
        )


def main() -> int:
    """Prints one line per newer version."""
    locked = metadata.version("pyspark")
    try:
        found = newer_versions(locked, published_versions(), is_published)
    except NoAnswer as error:
        print(f"newer versions of Spark are unknown: {error}", file=sys.stderr)
        return 1
    for one in found:
        print(one.line())
    usable = [one for one in found if not one.missing]
    if not usable:
        print(f"pyspark {locked} is the newest version whose jars are published")
    return 3 if usable else 0


def newer_versions(
    locked: str, versions: Iterable[str], published: Callable[[Jar], bool]
) -> list[Candidate]:
    """Each release above `locked`, with the jars it lacks. `published`: whether a jar is in the
    repository.
    """
    newer = sorted((one for one in versions if _key(one) > _key(locked)), key=_key)
    return [
        Candidate(one, tuple(jar.name for jar in needed_jars(one) if not published(jar)))
        for one in newer
    ]


def needed_jars(version: str) -> Iterator[Jar]:
    """The locked jars, with the connector of another version of Spark. Its token provider has the
    interface of the locked one.
    """
    for jar in connector_jars():
        group, artifact, *_ = jar.coordinates
        if artifact == _CONNECTOR:
            yield Jar((group, artifact, version), 0, "")
        else:
            yield jar


def published_versions(package: str = "pyspark") -> list[str]:
    """The final releases on the package index that pip is configured for. Raises NoAnswer."""
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if found is None:
        raise NoAnswer(f"pip index versions {package} answers: {_last_line(done.stderr)}")
    return [one for one in found[1].split(", ") if re.fullmatch(r"[\d.]+", one)]


def is_published(jar: Jar) -> bool:
    """Whether Maven's repository has a jar. Raises NoAnswer."""
    import httpx

    url = f"{MAVEN_CENTRAL}/{jar.path}"
    try:
        status = httpx.head(url, timeout=_TIMEOUT_S, follow_redirects=True).status_code
    except httpx.HTTPError as error:
        raise NoAnswer(f"{url}: {error}") from error
    if status not in (200, 404):
        raise NoAnswer(f"{url} answers {status}")
    return status == 200


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "nothing")


if __name__ == "__main__":
    sys.exit(main())
