"""The routes of the live page: its files, the JSON documents behind it, and the stream of
changes to the viewers who wait for them.
"""

import asyncio
import gzip
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pulsar_rebalancer.decisions.live import charts, page_views
from pulsar_rebalancer.decisions.live.plans_and_search import PlanSettings, answer, plans
from pulsar_rebalancer.decisions.live.snapshot_fold import LiveCluster, LiveSnapshot, OnceMade
from pulsar_rebalancer.serve.publish_decisions import DecisionPublisher
from pulsar_rebalancer.serve.publish_intents import IntentPublisher
from pulsar_rebalancer.serve.request_guard import json_error
from pulsar_rebalancer.serve.sign_in import SigningIn, json_of

#: Viewers at a time.
MOST_VIEWERS = 200


#: Pause (s) between two messages to a viewer, and after which a silent stream shows that it lives.
_BETWEEN_S, _ALIVE_S = 1.0, 15.0
#: Searches at a time: each takes the interpreter for some milliseconds.
_MOST_SEARCHES = 2
#: Bytes of a request's body.
_LARGEST_BODY = 16 * 2**10
Handler = Callable[["LivePage", Request], Awaitable[Response]]
_SESSION = "/api/v1/session"
_SMALL = 1_000
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


class ViewerNews:
    """The viewers that wait. `open` and `close` are called in the event loop, `announce` in any
    thread.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ended = False

    @property
    def viewers(self) -> int:
        """Number of viewers."""
        return len(self._waiting)

    def open(self) -> asyncio.Event | None:
        """The event that announces changes to one more viewer; None if there are too many."""
        self._loop = asyncio.get_running_loop()
        if len(self._waiting) >= MOST_VIEWERS or self.ended:
            return None
        event = asyncio.Event()
        self._waiting[id(event)] = event
        return event

    def close(self, event: asyncio.Event) -> None:
        """Forgets a viewer."""
        self._waiting.pop(id(event), None)

    def announce(self) -> None:
        """Wakes all viewers."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Wakes all viewers for the last time; called in the event loop."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting.values():
            event.set()


@dataclass(frozen=True, slots=True)
class Body:
    """An answer's bytes, plain and compressed. `tag`: changes when they do."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str

    def answer(self, request: Request, cache: str = "private, no-cache") -> Response:
        """The response; without a body if the viewer has it already."""
        headers = {"ETag": self.tag, "Cache-Control": cache, "Vary": "Accept-Encoding, Cookie"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if self.packed and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.packed, media_type=self.kind, headers=headers)
        return Response(self.plain, media_type=self.kind, headers=headers)


def body_of(kind: str, plain: bytes) -> Body:
    """The body with these bytes."""
    packed = gzip.compress(plain, 5, mtime=0) if len(plain) > _SMALL else b""
    return Body(kind, plain, packed, f'"{hashlib.sha256(plain).hexdigest()[:20]}"')


def json_body(document: dict[str, Any]) -> Body:
    """The document as JSON; figures that are no numbers become null."""
    return body_of("application/json", orjson.dumps(document))


def assets() -> dict[str, Body]:
    """The files of the page by name."""
    folder = files("pulsar_rebalancer.serve.assets")
    return {
        file.name: body_of(_TYPES[suffix], file.read_bytes())
        for file in folder.iterdir()
        if (suffix := file.name[file.name.rfind(".") :]) in _TYPES
    }


@dataclass
class LivePage:
    """State that the routes share. `snapshot`: the newest one; `now_ms`: the time since the epoch;
    `process`: random, so that a viewer notices a restart, after which versions begin again.
    """

    snapshot: Callable[[], LiveSnapshot]
    views: page_views.ViewSettings
    signing_in: SigningIn
    assets: dict[str, Body]
    now_ms: Callable[[], int]
    deciding: DecisionPublisher
    asking: IntentPublisher
    plans: PlanSettings
    news: ViewerNews = field(default_factory=ViewerNews)
    process: str = field(default_factory=lambda: secrets.token_hex(8))
    searches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_SEARCHES))

    def cluster(self, request: Request) -> LiveCluster:
        """The cluster that a request names."""
        found = self.snapshot().clusters.get(request.query_params.get("cluster", ""))
        if found is None:
            raise HTTPException(404, "No record names this cluster; /api/v1/clusters lists them.")
        return found


async def _asset(page: LivePage, request: Request) -> Response:
    found = page.assets.get(request.path_params.get("name", "index.html"))
    if found is None:
        raise HTTPException(404, "There is no such file.")
    return found.answer(request)


async def _clusters(page: LivePage, request: Request) -> Response:
    document = page_views.clusters(page.snapshot(), page.views)
    return json_body({**document, "now_ms": page.now_ms()}).answer(request)


async def _overview(page: LivePage, request: Request) -> Response:
    one, now = page.cluster(request), page.snapshot()
    view = partial(page_views.overview, one, page.views, now.paused, now.starting)
    return await _made_once(request, one.made, f"overview {now.paused} {now.starting}", view)


async def _plans(page: LivePage, request: Request) -> Response:
    one = page.cluster(request)
    view = partial(plans, one, page.plans)
    return await _made_once(request, one.decisions.made, "plans document", view)


async def _decide(page: LivePage, request: Request) -> Response:
    viewer = page.signing_in.operator_of(request)
    body = await json_of(request)
    approval = await page.deciding.decide(page.cluster(request), viewer.name, body)
    return JSONResponse(
        {"id": approval.id, "action": approval.action, "plan": approval.plan, "by": approval.by},
        status_code=202,
        headers={"Cache-Control": "no-store"},
    )


async def _ask(page: LivePage, request: Request) -> Response:
    viewer = page.signing_in.operator_of(request)
    body = await json_of(request)
    asked = await page.asking.ask(page.cluster(request), viewer.name, body)
    moves = [{"id": one.id, "bundle": one.bundle, "to": one.broker} for one in asked]
    return JSONResponse(
        {"action": "move", "by": viewer.name, "moves": moves},
        status_code=202,
        headers={"Cache-Control": "no-store"},
    )


async def _preview(page: LivePage, request: Request) -> Response:
    viewer = page.signing_in.operator_of(request)
    body = await json_of(request)
    shown = await page.asking.preview(page.cluster(request), viewer.name, body)
    return JSONResponse(shown, headers={"Cache-Control": "no-store"})


async def _rounds(page: LivePage, request: Request) -> Response:
    after = _number(request, "since")
    if not after:
        return await _decided(page_views.history, page, request)
    document = await run_in_threadpool(page_views.history, page.cluster(request), after)
    return json_body(document).answer(request)


async def _decided(
    view: Callable[[LiveCluster], page_views.Document],
    page: LivePage,
    request: Request,
) -> Response:
    """A document about decisions only, which stays the same until the next one."""
    one = page.cluster(request)
    return await _made_once(request, one.decisions.made, view.__name__, partial(view, one))


async def _made_once(
    request: Request, made: OnceMade, name: str, view: Callable[[], dict[str, Any]]
) -> Response:
    """The document of a view, which is encoded for the first viewer."""
    body: Body = await run_in_threadpool(made.get, name, lambda: json_body(view()))
    return body.answer(request)


async def _explain(page: LivePage, request: Request) -> Response:
    one, subject = page.cluster(request), request.query_params.get("subject", "")
    epoch = _number(request, "epoch") or None
    async with page.searches:
        find = partial(answer, approval_required=page.plans.required)
        found = await run_in_threadpool(find, one, subject, epoch)
    return json_body(found).answer(request, "no-store")


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 17):
        raise HTTPException(400, f"{name} is a whole number.")
    return int(text)


async def _events(page: LivePage, request: Request) -> Response:
    changed = page.news.open() if request.method == "GET" else None
    if changed is None:
        raise HTTPException(503, "Too many viewers at once; try again later.")
    return StreamingResponse(
        _stream(page, changed),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(page: LivePage, changed: asyncio.Event) -> AsyncIterator[bytes]:
    """Sends what is new, in few bytes: the numbers of the newest changes of each cluster."""
    seen: object = None
    try:
        while not page.news.ended:
            changed.clear()
            message = {**_news(page.snapshot()), "process": page.process}
            if message != seen:
                seen = message
                body = orjson.dumps({**message, "now_ms": page.now_ms()})
                yield b"data: " + body + b"\n\n"
                await asyncio.sleep(_BETWEEN_S)
            else:
                yield b": alive\n\n"
            try:
                await asyncio.wait_for(changed.wait(), _ALIVE_S)
            except TimeoutError:
                continue
    finally:
        page.news.close(changed)


def _news(snapshot: LiveSnapshot) -> dict[str, Any]:
    return {
        "clusters": {
            name: [one.version, one.decisions.version] for name, one in snapshot.clusters.items()
        },
        "topics": [[one.name, bool(one.error), one.caught_up] for one in snapshot.topics],
        "paused": snapshot.paused,
        "starting": snapshot.starting,
    }


#: Path, method and handler of what people see who have signed in.
_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("/api/v1/clusters", "GET", _clusters),
    ("/api/v1/cluster", "GET", _overview),
    ("/api/v1/plans", "GET", _plans),
    ("/api/v1/plans", "POST", _decide),
    ("/api/v1/intents", "POST", _ask),
    ("/api/v1/preview", "POST", _preview),
    ("/api/v1/brokers", "GET", partial(_decided, page_views.brokers)),
    ("/api/v1/usage", "GET", partial(_decided, charts.usage_over_time)),
    ("/api/v1/bundles", "GET", partial(_decided, charts.bundles_over_time)),
    ("/api/v1/rounds", "GET", _rounds),
    ("/api/v1/explain", "GET", _explain),
    ("/api/v1/events", "GET", _events),
)


def routes_of(page: LivePage, log: Callable[[str], None]) -> Starlette:
    """The application, without the checks of `RequestGuard`. `log`: gets unexpected errors."""

    async def failed(_: Request, error: Exception) -> Response:
        # A client that went away, or broke the protocol, is no error of ours. The text of the
        # error may contain names from records, but no secret: those have no text.
        if not isinstance(error, ClientDisconnect):
            log(f"a request failed, please report this as a bug: {type(error).__name__}: {error}")
        return json_error(500, "The page failed; its log says why.")

    signing_in = page.signing_in
    return Starlette(
        routes=[
            Route("/", partial(_asset, page)),
            Route("/assets/{name}", partial(_asset, page)),
            Route(_SESSION, signing_in.who_is_it),
            Route(_SESSION, signing_in.sign_in, methods=["POST"]),
            Route(_SESSION, signing_in.sign_out, methods=["DELETE"]),
            *(
                Route(path, partial(_signed_in, page, handler), methods=[method])
                for path, method, handler in _ROUTES
            ),
        ],
        middleware=[Middleware(RequestBodyLimitMiddleware, max_body_size=_LARGEST_BODY)],
        exception_handlers={HTTPException: _refusal, Exception: failed},
    )


async def _signed_in(page: LivePage, handler: Handler, request: Request) -> Response:
    page.signing_in.viewer_of(request)
    return await handler(page, request)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return json_error(error.status_code, error.detail, error.headers)
