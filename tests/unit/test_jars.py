"""Jars are fetched once, whole, and only if they are what the lock says; what goes wrong is told
with the next step.
"""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pulsar_rebalancer.cli import exit_codes
from strategies.errors import SettingsError
from streaming.jars.locked_jars import (
    Jar,
    JarSettings,
    JarsMissing,
    connector_files,
    connector_jars,
    fetch,
    present,
    read_lock,
)
from tests.unit.command_line import rebalancer

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
BODY = bytes(range(256)) * 40


def jar(name: str, body: bytes = BODY) -> Jar:
    return Jar(("org.example", name, "1.0"), len(body), hashlib.sha256(body).hexdigest())


@dataclass
class Repository:
    """A Maven repository on this machine; `breaks`: how many answers end in the middle."""

    bodies: dict[str, bytes] = field(default_factory=dict)
    breaks: int = 0
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def put(self, *jars: Jar, body: bytes = BODY) -> None:
        self.bodies |= {f"/maven2/{one.path}": body for one in jars}


@contextmanager
def serving(repository: Repository) -> Iterator[Repository]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.asked.append(self.path)
            body = repository.bodies.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            repository.breaks, broken = max(0, repository.breaks - 1), repository.breaks > 0
            self.wfile.write(body[: len(body) // 2] if broken else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_port}/maven2/"
    try:
        yield repository
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def repository() -> Iterator[Repository]:
    with serving(Repository()) as running:
        yield running


def test_jars_come_once_and_are_those_of_the_lock(repository: Repository, tmp_path: Path) -> None:
    jars = [jar(f"a{i}") for i in range(12)]
    repository.put(*jars)
    said: list[str] = []
    files = fetch(jars, tmp_path / "new", repository.url, said.append)
    assert [file.name for file in files] == [f"a{i}-1.0.jar" for i in range(12)]
    assert fetch(jars, tmp_path / "new", repository.url, said.append) == files
    assert present(jars, tmp_path / "new") == files
    assert len(repository.asked) == 12
    assert len(said) == 1
    assert {*(tmp_path / "new").glob("[!.]*")} == {*files}


def test_a_broken_download_is_tried_again(repository: Repository, tmp_path: Path) -> None:
    repository.put(jar("a"))
    repository.breaks = 2
    fetch([jar("a")], tmp_path, repository.url, pause_s=0)
    assert len(repository.asked) == 3
    assert present([jar("a")], tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["a-1.0.jar"]


def test_another_file_than_the_locked_one_is_never_kept(
    repository: Repository, tmp_path: Path
) -> None:
    repository.put(jar("a"), body=BODY[::-1])
    with pytest.raises(JarsMissing, match="its digest differs"):
        fetch([jar("a")], tmp_path, repository.url)
    assert list(tmp_path.iterdir()) == []


def test_processes_that_want_the_same_jars_do_not_disturb_each_other(
    repository: Repository, tmp_path: Path
) -> None:
    both = [jar("a"), jar("b")]
    repository.put(*both)
    with ThreadPoolExecutor(4) as pool:
        for task in [pool.submit(fetch, both, tmp_path, repository.url) for _ in range(4)]:
            task.result()
    assert present(both, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a-1.0.jar", "b-1.0.jar"]


def test_a_server_without_the_jar_is_asked_once_and_named(
    repository: Repository, tmp_path: Path
) -> None:
    said = r"a-1\.0\.jar could not be downloaded from http.*answers 404.*rebalancer jars fetch DIR"
    with pytest.raises(JarsMissing, match=said):
        fetch([jar("a")], tmp_path, repository.url)
    assert len(repository.asked) == 1


def test_no_server_at_all_is_told_with_the_next_step(tmp_path: Path) -> None:
    with serving(Repository()) as gone:
        pass
    said = r"refused.*Without network: run `rebalancer jars fetch DIR`"
    with pytest.raises(JarsMissing, match=said):
        fetch([jar("a")], tmp_path, gone.url, pause_s=0)


@pytest.mark.parametrize("url", ["ftp://example.org", "nonsense"])
def test_what_is_no_url_is_a_wrong_setting(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match=r"jars\.maven_url"):
        fetch([jar("a")], tmp_path, url)


def test_a_proxy_that_cannot_be_used_is_named_by_its_variables(tmp_path: Path) -> None:
    proxy = {"ALL_PROXY": "socks4://127.0.0.1:9", "all_proxy": "socks4://127.0.0.1:9"}
    done = rebalancer("jars", "fetch", str(tmp_path), env=proxy)
    assert done.code == exit_codes.ERROR
    assert "cannot be asked for jars (Unknown scheme for proxy URL" in done.err
    assert "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY" in done.err


def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SettingsError, match="cannot be written"):
        fetch([jar("a")], tmp_path / "file" / "below")


def test_jars_of_a_named_folder_are_compared_with_the_lock(tmp_path: Path) -> None:
    said = "does not exist; fill the folder with: rebalancer jars fetch"
    with pytest.raises(JarsMissing, match=said):
        connector_files(JarSettings(folder=str(tmp_path)))
    for one in connector_jars():
        (tmp_path / one.name).write_bytes(b"something else")
    with pytest.raises(JarsMissing, match="its digest differs"):
        connector_files(JarSettings(folder=str(tmp_path)))


@pytest.mark.parametrize(
    "file",
    [
        "streaming/jars/kafka_jars",
        *(f"tools/servers/jars/{one}" for one in ("kafka", "pulsar", "pulsar50")),
    ],
)
def test_no_two_jars_of_a_lock_have_one_name(file: str) -> None:
    jars = read_lock(ROOT / f"{file}.json")
    assert len({one.name for one in jars}) == len(jars) > 3
    assert all(len(one.sha256) == 64 and one.size > 0 for one in jars)
