"""Settings of earlier versions, and what a complaint about them says."""

from __future__ import annotations

from collections.abc import Mapping

_LOSS = "set job.fail_on_data_loss, which is for telemetry on any topic"
_NOTICE = "a notice is sent up to 20 times within about an hour, each time for up to 10 s"
_QUOTA = "raise bulkhead.records or bulkhead.bytes for a cluster that needs more"
_CALLS = "a call that can be repeated has three attempts, within pulsar.deadline_ms"
_PAGE = "the page has the last 500 rounds of each cluster, of the last day"

#: Dotted path → the version without it, and what holds instead.
REMOVED: Mapping[str, str] = {
    path: f"was removed in 0.2.0: {sentence}"
    for path, sentence in {
        "bulkhead.bytes_per_broker": _QUOTA,
        "bulkhead.first_bytes": _QUOTA,
        "bulkhead.records_per_broker": _QUOTA,
        "collector.keep_ms": "published load is valid for 30 minutes, as in Pulsar",
        "collector.max_concurrent": "64 brokers are asked at a time",
        "collector.most_passes_off": "at most 8 passes in a row skip a failing broker",
        "collector.policies_interval_ms": "policies are read after 15 passes, or 5 minutes if "
        "that is sooner",
        "collector.policies_repeat_ms": "unchanged policies are published every 15 minutes",
        "collector.state": "the brokers that a process has listed stand in while it runs",
        "executor.breaker_failures": "5 failed moves within 10 minutes pause the executor",
        "executor.breaker_ms": "5 failed moves within 10 minutes pause the executor",
        "executor.pause_file": "the file is `pause` in the folder executor.state",
        "executor.unowned_hold_ms": "a moved bundle without an owner holds back others for at most "
        "2 minutes",
        "files.fail_on_data_loss": _LOSS,
        "filters.enabled": "policies and filters always apply",
        "jars.packages": "fill a folder with `rebalancer jars fetch` and name it as jars.folder, "
        "or set jars.maven_url",
        "job.log_bytes": "logs become an older file at 16 MiB",
        "job.max_bytes_per_batch": "set job.max_records_per_batch; a micro-batch from files or "
        "Pulsar has at most 128 MiB",
        "job.segment_bytes": "segments of file topics have 64 MiB",
        "job.start_attempts": "set job.start_timeout_ms; the job makes at least three attempts",
        "kafka.fail_on_data_loss": _LOSS,
        "notices.attempts": _NOTICE,
        "notices.backoff_ms": _NOTICE,
        "notices.quiet_ms": "outcomes of the same reason are counted for an hour after a notice",
        "notices.silent_intervals": "a cluster is silent after 5 times round.interval_ms",
        "notices.timeout_ms": _NOTICE,
        "pulsar.attempts": _CALLS,
        "pulsar.backoff_ms": _CALLS,
        "pulsar.connect_timeout_ms": "connecting takes at most 3 s, within pulsar.deadline_ms",
        "pulsar.fail_on_data_loss": _LOSS,
        "round.clock_recovery_ms": "the clock of a cluster is reset after 15 minutes",
        "serve.history_ms": _PAGE,
        "serve.rounds": _PAGE,
        "throttling.per_round": "a round advises at most 10 dispatch limits",
        "throttling.repeat_ms": "a bundle gets such advice once an hour at most",
        "wire.kept_bytes": "the rejected topic keeps the first 64 KiB of a too large record",
    }.items()
}
