"""Java servers for tests: jars from a lock, a class-data archive that makes them start in seconds,
and nothing left behind.

A server gets SIGKILL when the process that started it dies, however it dies (where Linux's
`setpriv` is there).
"""

import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from streaming.jars.locked_jars import MAVEN_CENTRAL, JarsMissing, cache_folder, fetch, read_lock
from tools.not_here import NotHere
from tools.servers.java_here import compile_java, java_from, java_version
from tools.servers.logged_process import LoggedProcess, start_logged
from tools.servers.quick_java import JAVA_OPTIONS, QUICK_JAVA

HERE = Path(__file__).parent
#: A start takes seconds, and minutes where many busy processes share the cores.
_READY_S = 400.0
_STOP_S = 60.0
#: A broker gives itself a minute to hand its bundles over.
_SHUT_DOWN_S = 180.0
_LEAN = (
    *QUICK_JAVA,
    "-Xss512k",
    "-Xshare:auto",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
)


class JarsNotHere(JarsMissing, NotHere):
    """The jars of a server cannot be had."""


@dataclass(frozen=True)
class Program:
    """Java code to run: the jars of a lock, in its order, how much heap it gets, a class of ours
    that starts it, if one does, and the oldest Java that it runs on.
    """

    name: str
    heap: tuple[str, ...] = ("-Xms64m", "-Xmx256m")
    launcher: Path | None = None
    oldest_java: int = 17

    @property
    def java(self) -> str:
        """The Java that runs it: see `java_from`."""
        found = java_from(self.oldest_java)
        assert found is not None, f"{self.name} needs Java {self.oldest_java} or newer"
        return found

    @property
    def jars(self) -> list[Path]:
        """Fetched on first use; a mirror is named by the setting's own environment variable."""
        url = os.environ.get("REBALANCER_JARS__MAVEN_URL", MAVEN_CENTRAL)
        files = _fetched(self._lock, cache_folder(f"test-{self.name}"), url)
        if isinstance(files, str):
            raise JarsNotHere(f"{self.name} for tests is not here: {files}")
        return files

    @property
    def cache(self) -> Path:
        """A folder for what only these jars with this Java can use again: archives, formatted
        storage.
        """
        launcher = b"" if self.launcher is None else self.launcher.read_bytes()
        key = hashlib.sha256(
            self._lock.read_bytes() + java_version(self.java).encode() + launcher
        ).hexdigest()[:12]
        folder = cache_folder("test-servers") / f"{self.name}-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def _lock(self) -> Path:
        return HERE / "jars" / f"{self.name}.json"

    def command(self, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        """The command line that runs a class."""
        return [
            self.java,
            *self.heap,
            *_LEAN,
            *options,
            "-cp",
            os.pathsep.join(map(str, self._class_path)),
            main,
            *arguments,
        ]

    @property
    def _class_path(self) -> list[Path]:
        return self.jars if self.launcher is None else [self._compiled(self.launcher), *self.jars]

    def _compiled(self, source: Path) -> Path:
        """The launcher as a jar, for a class-data archive holds classes of jars only."""
        kept = self.cache / f"{source.stem}.jar"
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=self.cache) as folder:
                compile_java(source, self.jars, Path(folder), self.java)
                new = Path(folder) / kept.name
                with zipfile.ZipFile(new, "w") as jar:
                    for file in sorted(Path(folder).glob("*.class")):
                        jar.write(file, file.name)
                new.replace(kept)
        return kept


@cache
def _fetched(lock: Path, folder: Path, url: str) -> list[Path] | str:
    """The jars, or why they cannot be had: without network, one attempt per process is enough."""
    try:
        return fetch(read_lock(lock), folder, url, lambda text: print(text, file=sys.stderr))
    except JarsMissing as error:
        return str(error).partition(" Without network")[0]


@dataclass
class Server:
    """One server process: started, watched until it is ready, stopped or killed by its process id,
    started again.
    """

    program: Program
    main: str
    arguments: tuple[str, ...]
    folder: Path
    ready: str
    options: tuple[str, ...] = ()
    #: Whether it may write the class-data archive; of several alike, one is enough.
    archiving: bool = True
    #: What to put before the command line, a control group to enter for example.
    prefix: tuple[str, ...] = ()
    _logged: LoggedProcess | None = field(default=None, init=False)
    _archiving: Path | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def findings(self) -> set[Path]:
        """What a failed test refers to: the log, and dumps of threads."""
        return {self.log, *self.folder.glob("threads-*.txt")}

    @property
    def pid(self) -> int:
        return self._started.process.pid

    @property
    def runs(self) -> bool:
        return self._logged is not None and self._logged.process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Without a kill of ours."""
        return self._logged is not None and self._logged.process.poll() is not None

    def start(self) -> None:
        """Returns when the log says that the server is ready."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Returns at once, so that several can get ready at a time."""
        options = [
            *self.options,
            *self._archive_options(),
            f"-Dlog4j2.configurationFile={HERE / 'log4j2.json'}",
            f"-Djava.io.tmpdir={self.folder}",
        ]
        command = [
            *self.prefix,
            *self.program.command(self.main, *self.arguments, options=options),
        ]
        # Another archive, of Spark's classes, would keep this server from writing its own.
        environment = {name: value for name, value in os.environ.items() if name != JAVA_OPTIONS}
        self._logged = start_logged(self.main, command, self.log, environment, session=False)

    def wait_until_ready(self) -> None:
        """Returns when the log says that the server is ready."""
        self._started.wait_until_ready(self.ready, _READY_S)

    def pause(self) -> None:
        """It stands still, with all its connections."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """As a power failure would: no clean-up, no goodbye."""
        logged, self._logged = self._logged, None
        if logged is not None:
            logged.process.kill()
            logged.process.wait()

    def shut_down(self) -> None:
        """As an administrator would: asks for an end, and waits for it."""
        process, self._logged = self._started.process, None
        process.terminate()
        process.wait(_SHUT_DOWN_S)

    def stop(self) -> None:
        """Kill, unless this start is the one that writes the class-data archive on its way out."""
        if self._archiving is not None and self._logged is not None:
            self._logged.process.terminate()
            try:
                self._logged.process.wait(_STOP_S)
                if self._archiving.exists():
                    self._archiving.replace(self._archive)
            except subprocess.TimeoutExpired:
                pass
        self._archiving = None
        self.kill()

    @property
    def _started(self) -> LoggedProcess:
        assert self._logged is not None, "the server does not run"
        return self._logged

    @property
    def _archive(self) -> Path:
        return self.program.cache / f"{self.main}.jsa"

    def _archive_options(self) -> list[str]:
        if self._archive.exists():
            return [f"-XX:SharedArchiveFile={self._archive}"]
        if not self.archiving:
            return []
        self._archiving = self.folder / "classes.jsa"
        return [f"-XX:ArchiveClassesAtExit={self._archiving}"]


def free_ports(count: int) -> list[int]:
    """Ports that no process uses on any address: a bookie takes its port on all of them, while
    brokers of other clusters have addresses of their own.

    From below those that a system gives to clients: otherwise a client, even one that looks for the
    server, may hold the port of a server that is not there yet or that was killed.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(15_000, 32_000)
        with suppress(OSError), socket.socket() as looking:
            looking.bind(("", port))  # without listening: no client can connect
            found = [*found, port] if port not in found else found
    return found
