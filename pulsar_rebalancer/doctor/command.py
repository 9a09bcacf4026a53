"""`rebalancer doctor`: checks the requirements of the job and names a remedy for each failure, in
order and each within a time limit: a check whose server does not answer ends with a finding, and
the command continues with the next check.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pulsar_rebalancer.cli import console, exit_codes, options
from pulsar_rebalancer.cli.errors import abandon
from pulsar_rebalancer.doctor import (
    admin_and_clocks,
    disk_and_topics,
    java_python_and_spark,
    signing_keys_and_tokens,
)
from pulsar_rebalancer.doctor.admin_and_clocks import in_release_of_checkpoint
from pulsar_rebalancer.doctor.finding import Check, Finding, Status, ok
from pulsar_rebalancer.doctor.job_and_executor import check_epochs, check_executor, check_job
from pulsar_rebalancer.settings.merge_sources import Settings
from sinks.graceful_stop import wall_clock_ms
from strategies.errors import SettingsError
from strategies.fold.engine import EngineSettings
from streaming.large_records import temporary_files
from streaming.settings import JobSettings

_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class TimeLimit:
    """Runs checks in sequence, each in a thread of its own. A thread that exceeds the limit is
    abandoned and may keep a client open.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        total_s: float = 240.0,
        check_s: float = 90.0,
        say_every_s: float = 10.0,
    ) -> None:
        """`total_s`: of all checks together; `check_s`: of one check, for example of all topics or
        of one cluster; `say_every_s`: after each such time without a finding, a line names the
        check that is still running.
        """
        self._say, self._check_s, self._say_every_s = say, check_s, say_every_s
        self._end = time.monotonic() + total_s
        self._total_s = total_s
        #: Whether a thread was abandoned.
        self.exceeded = False

    def run(self, name: str, check: Check, status: Status = "fail") -> list[Finding]:
        """The findings of a check. If it exceeds the limit: those made in time, and one with
        `status` under the check's name.

        Raises what the check raises.
        """
        began = time.monotonic()
        until = min(began + self._check_s, self._end)
        if until <= began:
            return [
                Finding(
                    name,
                    status,
                    f"not checked: doctor's limit of {self._total_s:g} s is reached",
                    "see the findings above",
                )
            ]
        made: queue.SimpleQueue[Finding | BaseException | None] = queue.SimpleQueue()
        threading.Thread(
            target=_work, args=(check, made), name=f"doctor-{name}", daemon=True
        ).start()
        found: list[Finding] = []
        while (left_s := until - time.monotonic()) > 0:
            try:
                one = made.get(timeout=min(left_s, self._say_every_s))
            except queue.Empty:
                self._say(
                    f"doctor: {name}: not finished after {time.monotonic() - began:.0f} s; "
                    f"the limit is {until - began:.0f} s"
                )
                continue
            if one is None:
                return found
            if isinstance(one, BaseException):
                raise one
            found.append(one)
        self.exceeded = True
        return [
            *found,
            Finding(
                name,
                status,
                f"not finished within {until - began:.0f} s",
                "check the server or disk that this check needs, then run doctor again",
            ),
        ]


def _work(check: Check, made: queue.SimpleQueue[Finding | BaseException | None]) -> None:
    try:
        for one in check():
            made.put(one)
        made.put(None)
    except BaseException as error:  # raised again in the waiting thread
        made.put(error)


def doctor(
    *,
    config: options.Config = None,
    overrides: options.Overrides = None,
    spark_start: Annotated[
        bool,
        typer.Option(
            "--spark-start/--no-spark-start",
            help="Start Spark for a small job, which takes some seconds.",
        ),
    ] = True,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Shadow mode: expect Pulsar's own shedder to be enabled."),
    ] = False,
    health: Annotated[
        bool, typer.Option("--health", help="Only check that the job runs and closes rounds.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print warnings and failures only.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Check the requirements of job and executor, and whether a running job closes rounds:
    settings, Java, Spark, disk, topics, Pulsar, ….

    With --health, only checks that a job is running and closes rounds, which takes about a second.
    Exit code 1 if a check failed; warnings do not count.
    """
    limit = TimeLimit(console.progress)
    findings = (
        examine_job(config, overrides, limit)
        if health
        else examine(config, overrides, spark_start, shadow, limit)
    )
    if quiet:
        findings = [finding for finding in findings if finding.status != "ok"]
    if as_json:
        console.print_json("doctor", 1, {"findings": [asdict(finding) for finding in findings]})
    elif findings:
        console.show(as_table(findings))
    code = (
        exit_codes.ERROR if any(finding.status == "fail" for finding in findings) else exit_codes.OK
    )
    if limit.exceeded:
        abandon(code)
    raise typer.Exit(code)


def examine(
    config: Path | None,
    overrides: Sequence[str] | None,
    spark_start: bool,
    shadow: bool,
    limit: TimeLimit,
) -> list[Finding]:
    """All findings in the order of the output, tokens first. With invalid settings, checks of
    topics and folders and the start of Spark are skipped.
    """
    settings, findings = _settings(config, overrides)
    job = settings.job if settings is not None else JobSettings()
    tokens = admin_and_clocks.check_tokens(settings) if settings is not None else []
    findings += tokens
    found = [
        java_python_and_spark.check_java(os.environ),
        java_python_and_spark.check_python(os.environ, job),
        java_python_and_spark.check_pyspark(),
    ]
    findings += found
    if settings is not None and spark_start and all(finding.status != "fail" for finding in found):
        findings += limit.run("spark start", lambda: [java_python_and_spark.check_spark_start(job)])
    findings += java_python_and_spark.check_shipped(job)
    if settings is not None:
        findings += _of_settings(settings, shadow, _has(tokens, "token expiry", failed=True), limit)
    return findings


def examine_job(
    config: Path | None, overrides: Sequence[str] | None, limit: TimeLimit
) -> list[Finding]:
    """The finding about the running job; with invalid settings or an expired token for its rounds,
    the complaints about them.
    """
    settings, findings = _settings(config, overrides)
    if settings is None:
        return findings
    job, engine = settings.job, settings.engine
    if job.connections.topics.rounds.scheme == "pulsar":
        tokens = [
            finding
            for finding in admin_and_clocks.check_tokens(settings)
            if finding.check == "token expiry"
        ]
        if _has(tokens, "token expiry", failed=True):
            return tokens
    return limit.run("job", lambda: [check_job(job, engine, wall_clock_ms(), expected=True)])


def as_table(findings: Sequence[Finding]) -> console.Sheet:
    """One row per check, the remedy below the finding."""
    rows: list[list[console.Cell]] = [
        [
            Text(finding.status, _STYLE[finding.status]),
            finding.check,
            (finding.text, *([f"→ {finding.remedy}"] if finding.remedy else [])),
        ]
        for finding in findings
    ]
    return console.Sheet([("status", "left"), ("check", "left"), ("finding", "left")], rows)


def _of_settings(
    settings: Settings, shadow: bool, expired: bool, limit: TimeLimit
) -> list[Finding]:
    """Checks of the folders, topics and clusters in the settings. `expired`: the token of topics on
    Pulsar is not valid now.
    """
    settings = in_release_of_checkpoint(settings)
    job, engine = settings.job, settings.engine
    disk = limit.run(
        "disk",
        lambda: [
            disk_and_topics.check_disk(job),
            *disk_and_topics.check_temporary(temporary_files(os.environ)),
            disk_and_topics.check_checkpoint(job, engine),
        ],
    )
    topics = limit.run(
        "topics", lambda: disk_and_topics.check_topics(settings.connections, expired=expired)
    )
    readable = _has(topics, "topic commands", failed=False)
    clusters = admin_and_clocks.cluster_checks(settings, shadow)
    return [
        *disk,
        *disk_and_topics.check_codecs(job.connections.topics),
        *topics,
        *_of_rounds(job, engine, topics, limit),
        *limit.run(
            "signing key",
            lambda: [
                signing_keys_and_tokens.check_signing(
                    settings.connections, wall_clock_ms(), compare=readable
                )
            ],
            "warn",
        ),
        *limit.run("executor", lambda: [check_executor(settings.executor)]),
        *signing_keys_and_tokens.check_approvals(
            settings.executor, settings.connections.signing, engine.round
        ),
        *signing_keys_and_tokens.check_intents(settings.connections.signing),
        *(finding for name, check in clusters for finding in limit.run(name, check)),
    ]


def _of_rounds(
    job: JobSettings, engine: EngineSettings, topics: Sequence[Finding], limit: TimeLimit
) -> list[Finding]:
    if not _has(topics, "topic rounds", failed=False):
        return [
            Finding(
                check,
                "warn",
                "unknown without the rounds topic",
                "see the finding about topic rounds",
            )
            for check in ("job", "epochs")
        ]
    return [
        *limit.run(
            "job",
            lambda: [check_job(job, engine, wall_clock_ms(), expected=False)],
            "warn",
        ),
        *limit.run("epochs", lambda: [check_epochs(job)], "warn"),
    ]


def _has(findings: Sequence[Finding], check: str, *, failed: bool) -> bool:
    """True if one of the findings is of this check, which has failed or has not."""
    return any(one.check == check and (one.status == "fail") == failed for one in findings)


def _settings(
    config: Path | None, overrides: Sequence[str] | None
) -> tuple[Settings | None, list[Finding]]:
    try:
        settings = options.settings(config, overrides)
    except SettingsError as error:
        return None, [
            Finding("settings", "fail", complaint, "correct the named source")
            for complaint in error.complaints
        ]
    given = sum(entry.kind != "default" for entry in settings.entries)
    said = f"{given} of {len(settings.entries)} given ({settings.source})"
    return settings, [
        ok("settings", f"valid, {said}")
        if settings.file is not None or given
        else Finding(
            "settings",
            "fail",
            f"{said}: the checks are those of an installation with defaults only",
            "name the settings file of the installation with --config or REBALANCER_CONFIG",
        ),
        *(
            Finding("settings", "warn", text, remedy)
            for text, _, remedy in (warning.rpartition("; ") for warning in settings.warnings)
        ),
    ]
