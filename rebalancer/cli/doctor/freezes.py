"""Finds frozen brokers: they answer requests, but no longer read metadata."""

from __future__ import annotations

from contextlib import closing

from rebalancer.cli.doctor.finding import Finding, ok
from sinks.pulsar_api.admin import PulsarAdmin
from sinks.pulsar_api.freezes import PATIENCE_MS, find_stuck, probing
from sinks.pulsar_api.settings import PulsarSettings


def check_freezes(
    brokers: tuple[str, ...], settings: PulsarSettings, patience_ms: int = PATIENCE_MS
) -> Finding:
    """Checks each broker, and a second time if it does not read metadata. Raises Unauthorized."""
    with closing(PulsarAdmin(probing(settings, patience_ms))) as admin:
        stuck = find_stuck(admin, brokers, brokers)
    if not stuck:
        return ok("frozen brokers", "none: every broker that answers reads metadata")
    return Finding(
        "frozen brokers",
        "fail",
        stuck.what,
        f"{stuck.remedy}; executors refuse all moves until then",
    )
