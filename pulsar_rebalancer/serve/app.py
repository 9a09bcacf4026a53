"""The routes of the live page: its files, the JSON documents behind it, and the stream of
changes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pulsar_rebalancer.decisions.live import pictures, plan_views, search, views
from pulsar_rebalancer.decisions.live.snapshot import LiveCluster, LiveSnapshot
from pulsar_rebalancer.serve.deciding import DecisionPublisher
from pulsar_rebalancer.serve.documents import Body, json_body
from pulsar_rebalancer.serve.signing_in import SigningIn, json_of
from pulsar_rebalancer.serve.viewer_news import ViewerNews

#: Pause (s) between two messages to a viewer, and after which a silent stream shows that it lives.
_BETWEEN_S, _ALIVE_S = 1.0, 15.0
#: Searches at a time: each takes the interpreter for some milliseconds.
_MOST_SEARCHES = 2
Handler = Callable[["LivePage", Request], Awaitable[Response]]


@dataclass
class LivePage:
    """What the routes need. `snapshot`: the newest one; `now_ms`: the time since the epoch;
    `process`: random, so that a viewer notices a restart, after which versions begin again.
    """

    snapshot: Callable[[], LiveSnapshot]
    views: views.ViewSettings
    signing_in: SigningIn
    assets: dict[str, Body]
    now_ms: Callable[[], int]
    deciding: DecisionPublisher
    plans: plan_views.PlanSettings
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
    found = page.assets.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such file.")
    return found.answer(request)


async def _index(page: LivePage, request: Request) -> Response:
    return page.assets["index.html"].answer(request)


async def _clusters(page: LivePage, request: Request) -> Response:
    document = views.clusters(page.snapshot(), page.views)
    return json_body({**document, "now_ms": page.now_ms()}).answer(request)


async def _overview(page: LivePage, request: Request) -> Response:
    one, now = page.cluster(request), page.snapshot()
    make = partial(_encoded, views.overview, one, page.views, now.paused, now.starting)
    body = await run_in_threadpool(one.made.get, f"overview {now.paused} {now.starting}", make)
    return body.answer(request)


async def _plans(page: LivePage, request: Request) -> Response:
    one = page.cluster(request)
    make = partial(_encoded, plan_views.plans, one, page.plans)
    body = await run_in_threadpool(one.decisions.made.get, "plans document", make)
    return body.answer(request)


async def _decide(page: LivePage, request: Request) -> Response:
    viewer = page.signing_in.operator_of(request)
    body = await json_of(request)
    approval = await page.deciding.decide(page.cluster(request), viewer.name, body)
    return JSONResponse(
        {"id": approval.id, "action": approval.action, "plan": approval.plan, "by": approval.by},
        status_code=202,
        headers={"Cache-Control": "no-store"},
    )


async def _brokers(page: LivePage, request: Request) -> Response:
    return await _picture(page, request, "brokers", views.brokers)


async def _usage(page: LivePage, request: Request) -> Response:
    return await _picture(page, request, "usage", pictures.usage_over_time)


async def _picture(
    page: LivePage, request: Request, name: str, view: Callable[..., dict[str, Any]]
) -> Response:
    decisions = page.cluster(request).decisions
    make = partial(_encoded, view, decisions)
    body = await run_in_threadpool(decisions.made.get, name, make)
    return body.answer(request)


async def _bundles(page: LivePage, request: Request) -> Response:
    one = page.cluster(request)
    make = partial(_encoded, pictures.bundles_over_time, one.decisions, one.now_ms)
    body = await run_in_threadpool(one.decisions.made.get, "bundles", make)
    return body.answer(request)


async def _rounds(page: LivePage, request: Request) -> Response:
    one, after = page.cluster(request), _number(request, "since")
    if after:
        document = await run_in_threadpool(views.history, one.decisions, one.now_ms, after)
        return json_body(document).answer(request)
    make = partial(_encoded, views.history, one.decisions, one.now_ms)
    body = await run_in_threadpool(one.decisions.made.get, "rounds", make)
    return body.answer(request)


async def _explain(page: LivePage, request: Request) -> Response:
    one, subject = page.cluster(request), request.query_params.get("subject", "")
    epoch = _number(request, "epoch") or None
    async with page.searches:
        find = partial(search.answer, approval_required=page.plans.required)
        found = await run_in_threadpool(find, one, subject, epoch)
    return json_body(found).answer(request, "no-store")


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 17):
        raise HTTPException(400, f"{name} is a whole number.")
    return int(text)


def _encoded(view: Callable[..., dict[str, Any]], *given: object) -> Body:
    return json_body(view(*given))


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
    """What is new, in few bytes: the numbers of the newest changes of each cluster."""
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


#: Path, methods, handler, and whether it needs no sign-in.
_ROUTES: tuple[tuple[str, tuple[str, ...], Handler, bool], ...] = (
    ("/", ("GET",), _index, True),
    ("/assets/{name}", ("GET",), _asset, True),
    ("/api/v1/clusters", ("GET",), _clusters, False),
    ("/api/v1/cluster", ("GET",), _overview, False),
    ("/api/v1/plans", ("GET",), _plans, False),
    ("/api/v1/plans", ("POST",), _decide, False),
    ("/api/v1/brokers", ("GET",), _brokers, False),
    ("/api/v1/usage", ("GET",), _usage, False),
    ("/api/v1/bundles", ("GET",), _bundles, False),
    ("/api/v1/rounds", ("GET",), _rounds, False),
    ("/api/v1/explain", ("GET",), _explain, False),
    ("/api/v1/events", ("GET",), _events, False),
)


def routes_of(page: LivePage) -> Starlette:
    """The application, without the checks of `RequestGuard`."""
    routes = [
        Route(path, partial(_served, page, path, handler, public), methods=list(methods))
        for path, methods, handler, public in _ROUTES
    ]
    session = "/api/v1/session"
    signing_in = page.signing_in
    routes += [
        Route(session, partial(_named, session, call), methods=[method])
        for method, call in (
            ("GET", signing_in.who_is_it),
            ("POST", signing_in.sign_in),
            ("DELETE", signing_in.sign_out),
        )
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refusal})


async def _served(
    page: LivePage, path: str, handler: Handler, public: bool, request: Request
) -> Response:
    request.scope["route_name"] = path
    if not public:
        page.signing_in.viewer_of(request)
    return await handler(page, request)


async def _named(
    path: str, call: Callable[[Request], Awaitable[Response]], request: Request
) -> Response:
    request.scope["route_name"] = path
    return await call(request)


async def _refusal(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    text = error.detail if isinstance(error, HTTPException) else "The page failed."
    return JSONResponse(
        {"error": text}, status_code=status, headers={**headers, "Cache-Control": "no-store"}
    )
