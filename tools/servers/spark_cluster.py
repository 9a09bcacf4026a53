"""A Spark standalone cluster on loopback: a master and workers, each a process and a folder of its
own; a worker can be killed.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tools.servers.java_here import java
from tools.servers.jvm import free_ports
from tools.servers.logged_process import LoggedProcess, start_logged
from tools.servers.quick_java import JAVA_OPTIONS, QUICK_JAVA

_READY_S = 120.0
_HOST = "127.0.0.1"
_MARK = "TESTS_SPARK_PROCESS"
_LEAN = " ".join([*QUICK_JAVA, "-Xss512k"])
#: Executors of one core and a heap as small as Spark allows.
_DEFAULTS = """
spark.executor.memory 512m
spark.executor.cores 1
spark.cores.max 2
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
"""


@dataclass
class SparkProcess:
    """A master or a worker. What a worker starts, executors and their Python, carries its mark and
    dies with it.
    """

    name: str
    folder: Path
    words: tuple[str, ...]
    ready: str
    environment: Mapping[str, str]
    _logged: LoggedProcess | None = field(default=None, init=False)

    def start(self) -> None:
        """Returns when the log says that it is ready."""
        self.folder.mkdir(exist_ok=True)
        command = [str(Path(pyspark.__file__).parent / "bin/spark-class"), *self.words]
        log = self.folder / "process.log"
        self._logged = start_logged(self.name, command, log, self._environment(), session=True)
        self._logged.wait_until_ready(self.ready, _READY_S)

    def kill(self) -> int:
        """SIGKILL to the process and to all that it has started; how many processes that were."""
        logged, self._logged = self._logged, None
        killed: set[int] = set()
        if logged is not None:
            logged.process.kill()
            logged.process.wait()
            killed.add(logged.process.pid)
        while found := self.started():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed |= found
        return len(killed)

    def started(self) -> set[int]:
        """Living processes that carry the mark of this one."""
        wanted, found = f"{_MARK}={self.folder}\0".encode(), set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "environ").read_bytes():
                        found.add(int(entry.name))
        return found

    def python_seconds(self) -> float:
        """CPU time of the Python processes of its executors: who decides has the most."""
        return sum(_cpu_seconds(pid) for pid in self.started())

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYSPARK_", "PYTHON", "SPARK_", "VIRTUAL_"))
        }
        own = {
            _MARK: str(self.folder),
            "SPARK_LOCAL_DIRS": str(self.folder),
            "SPARK_DAEMON_MEMORY": "192m",
            # Executors read it too: nothing of theirs is left when they are killed.
            JAVA_OPTIONS: f"{self.environment[JAVA_OPTIONS]} -Djava.io.tmpdir={self.folder}",
        }
        return {**inherited, **self.environment, **own}


def _cpu_seconds(pid: int) -> float:
    """Of a Python process; nothing of any other, nor of one that has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    name, figures = (
        text[text.index("(") + 1 : text.rindex(")")],
        text[text.rindex(")") + 2 :].split(),
    )
    return (
        (int(figures[11]) + int(figures[12])) / os.sysconf("SC_CLK_TCK")
        if name.startswith("python")
        else 0.0
    )


@dataclass(frozen=True)
class SparkCluster:
    """`url`: for --master; `environment`: what a driver needs beside it."""

    url: str
    workers: tuple[SparkProcess, ...]
    environment: Mapping[str, str]


@contextlib.contextmanager
def spark_cluster(
    folder: Path, workers: int, cores: int = 1, memory: str = "600m", java_options: str = _LEAN
) -> Iterator[SparkCluster]:
    """A master and workers, each with `cores` and `memory`, whose Python has no packages at all;
    all killed at the end. `java_options`: by default those for short runs.
    """
    port, page, *pages = free_ports(2 + workers)
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "spark-defaults.conf").write_text(_DEFAULTS)
    bare = str(Path(sys.base_prefix) / "bin")
    environment = {"SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": _HOST}
    on_servers = {
        **environment,
        JAVA_OPTIONS: java_options,
        "PATH": os.pathsep.join((bare, str(Path(java()).parent), os.defpath)),
    }
    master = SparkProcess(
        "master",
        folder / "master",
        (
            "org.apache.spark.deploy.master.Master",
            "--host",
            _HOST,
            "--port",
            str(port),
            "--webui-port",
            str(page),
        ),
        "I have been elected leader",
        on_servers,
    )
    url = f"spark://{_HOST}:{port}"
    started = [
        master,
        *(
            _worker(folder / f"worker-{number}", url, webui, (cores, memory), on_servers)
            for number, webui in enumerate(pages, 1)
        ),
    ]
    try:
        for process in started:
            process.start()
        yield SparkCluster(url, tuple(started[1:]), environment)
    finally:
        for process in started:
            process.kill()


def _worker(
    folder: Path, url: str, page: int, size: tuple[int, str], environment: Mapping[str, str]
) -> SparkProcess:
    own = (
        "--host",
        _HOST,
        "--webui-port",
        str(page),
        "--cores",
        str(size[0]),
        "--memory",
        size[1],
        "--work-dir",
        str(folder / "work"),
    )
    words = ("org.apache.spark.deploy.worker.Worker", *own, url)
    return SparkProcess(
        folder.name, folder, words, "Successfully registered with master", environment
    )
