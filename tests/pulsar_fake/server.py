"""The fake's brokers on real ports of this machine: one listening socket each, every call recorded,
faults on demand.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from tests.pulsar_fake.model import Answer, Cluster, Request

#: The first byte of a TLS handshake.
_TLS = b"\x16"


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong: the answer comes late, the connection breaks (before or after the work was
    done), or another answer is given.
    """

    delay_s: float = 0.0
    drop: bool = False
    drop_after: bool = False
    instead: Answer | None = None


def answered(status: int, body: bytes = b"") -> Fault:
    return Fault(instead=Answer(status, body))


def is_put(request: Request) -> bool:
    """Unloads and splits."""
    return request.method == "PUT"


#: What is wrong with a request; None for those that are served as usual.
Faults = Callable[[Request], Fault | None]


class FakePulsar:
    """`with FakePulsar(Cluster(), brokers=3) as pulsar:` – `pulsar.cluster.brokers` are then the
    ids, `calls` what was asked of whom.

    `most_at_once`: how many requests were under way at the same time.
    """

    def __init__(self, cluster: Cluster, brokers: int = 3) -> None:
        self.cluster = cluster
        self.calls: list[tuple[Request, Answer]] = []
        self.faults: Faults = lambda _: None
        self.most_at_once = 0
        self._now = 0
        self._count = brokers
        self._loop = asyncio.new_event_loop()
        run = self._loop.run_forever
        self._thread = threading.Thread(target=run, name="fake-pulsar", daemon=True)
        self._servers: dict[str, asyncio.Server] = {}
        self._open: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> "FakePulsar":
        self._thread.start()
        for _ in range(self._count):
            self.join()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close_all()).result(120)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)
        self._loop.close()

    @property
    def admin_urls(self) -> str:
        return ",".join(f"http://{broker}" for broker in self.cluster.brokers[:2])

    def join(self) -> str:
        broker = self._run(self._listen()).result(120)
        self.cluster.brokers.append(broker)
        return str(broker)

    def kill(self, broker: str, *, still_listed: bool = False) -> None:
        """The broker is gone, and owns nothing; the others list it until its session ends."""
        self._run(self._stop(broker)).result(120)
        if not still_listed:
            self.cluster.brokers.remove(broker)
            for bundle, owner in self.cluster.owners.items():
                if owner == broker:
                    self.cluster.owners[bundle] = None

    def fail(self, wanted: str | Callable[[Request], bool], fault: Fault) -> None:
        """From now on, where the target contains `wanted` or it is true; nothing else fails."""

        def matches(request: Request) -> bool:
            return wanted in request.target if isinstance(wanted, str) else wanted(request)

        self.faults = lambda request: fault if matches(request) else None

    def heal(self) -> None:
        self.faults = lambda _: None

    def asked(self, method: str) -> list[Request]:
        return [request for request, _ in self.calls if request.method == method]

    def _run(self, coroutine: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _listen(self) -> str:
        name: list[str] = []
        server = await asyncio.start_server(
            lambda reader, writer: self._serve(name[0], reader, writer), "127.0.0.1", 0, backlog=256
        )
        name.append(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        self._servers[name[0]] = server
        return name[0]

    async def _stop(self, broker: str) -> None:
        self._servers.pop(broker).close()
        for writer in list(self._open):
            if f":{writer.get_extra_info('sockname')[1]}" == broker[broker.rindex(":") :]:
                writer.close()

    async def _close_all(self) -> None:
        for server in self._servers.values():
            server.close()
        for writer in list(self._open):
            writer.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(
        self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._open.add(writer)
        try:
            while (request := await _read(broker, reader)) is not None:
                if not await self._respond(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(writer)
            with suppress(ConnectionError, RuntimeError):
                writer.close()

    async def _respond(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        fault = self.faults(request) or Fault()
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            await asyncio.sleep(fault.delay_s)
        finally:
            self._now -= 1
        if fault.drop:
            self.calls.append((request, Answer(0)))
            return False
        answer = fault.instead or self.cluster.answer(request)
        self.calls.append((request, answer))
        if fault.drop_after:
            return False
        head = [
            f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
            f"Date: {formatdate(usegmt=True)}",
            f"Content-Length: {len(answer.body)}",
        ]
        head += [f"Location: {answer.location}"] if answer.location else []
        writer.write("\r\n".join([*head, "", ""]).encode() + answer.body)
        await writer.drain()
        return True


async def _read(broker: str, reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when it was closed, or begins as TLS does: a web
    server closes it at once too.
    """
    begin = await reader.read(1)
    if begin in (b"", _TLS):
        return None
    first = begin + await reader.readline()
    method, target, _ = first.decode("latin-1").split()
    headers = {}
    while (line := (await reader.readline()).decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(broker, method, target, headers, body)
