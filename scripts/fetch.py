"""What a lane of tests needs beyond the repository: python -m scripts.fetch list|get LANE.

`list` prints what is missing, with sizes; standard library only, as it runs before anything is
installed. `get` fetches all of it but the packages. What cannot be had is one line, not an error:
the tests that need it are skipped with the reason.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.packages import cost, missing
from scripts.progress import reporting, say
from strategies.errors import RebalancerError
from streaming.jars.locked_jars import MAVEN_CENTRAL, Jar, cache_folder, fetch, read_lock

ROOT = Path(__file__).parents[1]
VENV = Path(sys.prefix)
SERVERS = ("browser", "prometheus", "connector", "kafka", "pulsar")
#: Lane → what its tests need beside the packages for developers.
LANES = {
    "test": SERVERS,
    "test-servers": SERVERS,
    "test-lab": ("browser", "connector", "kafka"),
    "test-all": SERVERS,
    "test-long": (*SERVERS, "pulsar50"),
}


@dataclass(frozen=True, slots=True)
class Need:
    """Something that is fetched once. `size`: what a fetch downloads; `why_not`: fetches it and
    returns None, or the reason why it cannot be had; `here`: bytes that have arrived, if known.
    """

    title: str
    size: str
    is_here: Callable[[], bool]
    why_not: Callable[[], str | None]
    here: Callable[[], int] | None = None


def main(command: str, lane: str) -> int:
    """Exit code."""
    needs = [need for need in map(need_of, LANES[lane]) if not need.is_here()]
    if command == "list":
        show(lane, needs)
    else:
        for need in needs:
            get(need)
    return 0


def show(lane: str, needs: list[Need]) -> None:
    """Prints what `make LANE` fetches."""
    packages = missing("dev.lock")
    lines = [f"{len(packages)} Python packages: {cost(packages)}"] if packages else []
    lines += [f"{need.title}: {need.size}" for need in needs]
    if lines:
        say("\n  ".join((f"make {lane} fetches, once:", *lines)))


def get(need: Need) -> None:
    """Fetches it; says so when it cannot be had."""
    say(f"Fetching {need.title}: {need.size}")
    arrived = need.here or (lambda: 0)

    def progress() -> str:
        return f"{need.title}: {arrived() / 2**20:.0f} MiB so far" if need.here else need.title

    with reporting(progress):
        reason = need.why_not()
    if reason is not None:
        say(f"{need.title} cannot be had, tests that need it are skipped: {reason}")


def need_of(name: str) -> Need:
    """One of `LANES`."""
    if name == "browser":
        return program("Chromium", "about 80 MB with apt-get, 180 MB without root", "browser")
    if name == "prometheus":
        return program("Debian's Prometheus", "about 20 MB", "prometheus")
    if name == "connector":
        return jars("Spark's Kafka connector", "spark-kafka", "streaming/jars/kafka_jars.json")
    titles = {"kafka": "Kafka", "pulsar": "Pulsar 4.2", "pulsar50": "Pulsar 5.0"}
    return jars(f"{titles[name]} for tests", f"test-{name}", f"tools/servers/jars/{name}.json")


def program(title: str, size: str, script: str) -> Need:
    """What a script of this folder finds or installs."""

    def run(mode: str) -> subprocess.CompletedProcess[str]:
        words = [str(ROOT / f"scripts/{script}.sh"), mode, str(VENV)]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def why_not() -> str | None:
        done = run("install")
        return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    return Need(title, size, lambda: run("find").returncode == 0, why_not)


def jars(title: str, cache: str, lock: str) -> Need:
    """The jars of a lock, in the user's cache."""
    wanted, folder = read_lock(ROOT / lock), cache_folder(cache)

    def why_not() -> str | None:
        try:
            fetch(wanted, folder, os.environ.get("REBALANCER_JARS__MAVEN_URL", MAVEN_CENTRAL))
        except RebalancerError as error:
            return str(error).partition(" Without network")[0]
        return None

    absent = [jar for jar in wanted if size_of(folder / jar.name) != jar.size]
    size = f"{len(absent)} jars, {sum(jar.size for jar in absent) / 2**20:.0f} MiB"
    return Need(title, size, lambda: not absent, why_not, partial(arrived, absent, folder))


def arrived(jars: list[Jar], folder: Path) -> int:
    """Bytes of these jars in a folder, those of unfinished downloads included."""
    return sum(size_of(folder / jar.name) or size_of(folder / f".{jar.name}.part") for jar in jars)


def size_of(file: Path) -> int:
    """0 if there is no such file."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
