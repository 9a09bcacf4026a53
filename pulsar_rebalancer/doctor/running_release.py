"""The Pulsar versions that brokers run, and the release whose rules and defaults the settings
follow.
"""

from collections.abc import Sequence
from contextlib import suppress

from pulsar_rebalancer.doctor.brokers import Broker
from pulsar_rebalancer.doctor.finding import Finding, Rule, evaluate
from pulsar_rebalancer.settings.merge_sources import Settings
from strategies.errors import RebalancerError
from strategies.java.pulsar_versions_and_defaults import (
    PULSAR_VERSION,
    ClusterRelease,
    PulsarRelease,
    release_of,
)
from streaming.auto_settings import release_in
from streaming.checkpoint.guard import checkpoint_folder
from streaming.checkpoint.remembered_and_changed_settings import written_guard


def in_release_of_checkpoint(settings: Settings) -> Settings:
    """The settings with the Pulsar release of their checkpoint, if they leave it open."""
    release = _fixed(settings)
    return settings if release is None else settings.in_release(release)


def used_release(listed: Sequence[Broker], settings: Settings) -> PulsarRelease:
    """The release whose rules decide: that of settings or checkpoint, otherwise of the brokers."""
    return _fixed(settings) or _running(listed).release


def check_release(listed: Sequence[Broker], settings: Settings) -> Finding:
    """Checks that the rules that decide are those of the oldest broker, and that all versions are
    known.
    """
    found, used = _running(listed), used_release(listed, settings)
    fine = f"the rules and defaults of {used} apply: {found.why}"
    how = "the checkpoint fixes" if settings.release_is_open else "the settings name"
    differs = f"{how} the rules and defaults of {used}, but {found.why}"
    known = found.oldest is not None
    return evaluate(
        "pulsar version",
        fine,
        Rule(
            known and used != found.release,
            "warn",
            "; ".join((differs, *found.remarks)),
            f'to follow the brokers, set {PULSAR_VERSION} = "{found.release}" and name a new '
            "folder as job.checkpoint",
        ),
        Rule(
            known and bool(found.remarks),
            "warn",
            "; ".join((fine, *found.remarks)),
            "finish the upgrade, or update this program if the brokers are newer than it",
        ),
    )


def _running(listed: Sequence[Broker]) -> ClusterRelease:
    return release_of({broker.name: broker.version for broker in listed if broker.version})


def _fixed(settings: Settings) -> PulsarRelease | None:
    """The release of the settings, otherwise that of the checkpoint; None before the first start.
    The finding about the checkpoint reports a damaged one.
    """
    if not settings.release_is_open:
        return settings.engine.pulsar_version
    with suppress(RebalancerError):
        written = written_guard(checkpoint_folder(settings.job))
        return None if written is None else release_in(written)
    return None
