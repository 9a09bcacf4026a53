"""Assembles the page: its routes behind the guard, for the settings of the process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pulsar_rebalancer.decisions.live.plan_views import PlanSettings
from pulsar_rebalancer.decisions.live.snapshot import LiveSnapshot
from pulsar_rebalancer.decisions.live.views import ViewSettings
from pulsar_rebalancer.serve.app import LivePage, routes_of
from pulsar_rebalancer.serve.deciding import NO_KEY, DecisionPublisher
from pulsar_rebalancer.serve.documents import assets
from pulsar_rebalancer.serve.request_check import LOOPBACK_NAMES, App, RequestGuard
from pulsar_rebalancer.serve.signing_in import NO_TOKENS, SigningIn
from pulsar_rebalancer.serve.tokens import FailureLimit, Sessions, TokenBook, read_tokens
from pulsar_rebalancer.serve.viewer_news import ViewerNews
from pulsar_rebalancer.settings.load import Settings
from pulsar_rebalancer.settings.serve import ServeSettings, host_names, is_loopback, serve_address
from sinks.wire.signing import SigningKey, approvals_key


@dataclass(frozen=True, slots=True)
class AssembledPage:
    """The application, and what announces changes to its viewers."""

    app: App
    news: ViewerNews


def assembled_page(
    settings: Settings,
    snapshot: Callable[[], LiveSnapshot],
    now_ms: Callable[[], int],
    *,
    answered: Callable[[str, int], None] = lambda route, status: None,
    log: Callable[[str], None] = lambda _: None,
) -> AssembledPage:
    """The page of these settings. Raises SettingsError for an invalid token file or
    signing key.
    """
    serve, key = settings.serve, approvals_key(settings.connections.signing)
    page = LivePage(
        snapshot,
        ViewSettings(settings.engine.round, settings.collector.pass_interval_ms),
        SigningIn(
            tokens_of(serve),
            Sessions(time.monotonic),
            FailureLimit(time.monotonic),
            secure=bool(serve.tls_cert),
        ),
        assets(),
        now_ms,
        DecisionPublisher(settings.connections, key, now_ms),
        plan_settings(settings, key),
    )
    app = routes_of(page)
    return AssembledPage(RequestGuard(app, allowed_hosts(serve), answered, log), page.news)  # type: ignore[arg-type]


def plan_settings(settings: Settings, key: SigningKey | None) -> PlanSettings:
    """Whether plans wait for people, and why the page cannot write their decisions."""
    no_key = NO_KEY if key is None else ""
    why_not = no_key if settings.serve.token_file else NO_TOKENS
    return PlanSettings(settings.executor.approval == "required", why_not)


def tokens_of(serve: ServeSettings) -> TokenBook | None:
    """The tokens, None without a file. Raises SettingsError."""
    return read_tokens(serve.token_file) if serve.token_file else None


def allowed_hosts(serve: ServeSettings) -> frozenset[str]:
    """The names that requests may be for; empty = any. Without tokens only names of this machine
    are safe: a foreign site's name may lead here, too.
    """
    host, named = serve_address(serve).host, host_names(serve)
    if serve.token_file and not named and not is_loopback(host):
        return frozenset()
    return frozenset({*LOOPBACK_NAMES, host.lower(), *named})
