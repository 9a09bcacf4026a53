"""Settings in the Pulsar release that brokers report, for processes that ask what the job does."""

from pulsar_rebalancer.settings.merge_sources import Settings
from strategies.java.pulsar_versions_and_defaults import release_of
from streaming.first_start import versions_seen


def in_reported_release(settings: Settings) -> Settings:
    """The settings of a new job: in the release that its telemetry names, unless a source names
    one. Reads the last 20 minutes of telemetry. Raises SinkError.
    """
    if not settings.release_is_open:
        return settings
    return settings.in_release(release_of(versions_seen(settings.connections) or {}).release)
