"""What an executor may do, how fast, and when; and where it keeps what it must not forget."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from sinks.wire.record_decoding import DEFAULT_LIMITS, WireLimits
from sinks.wire.signing_keys import SigningKey
from strategies.errors import SettingsError, raise_complaints
from strategies.executor.admission import AdmissionRules
from strategies.executor.gate_and_breaker import BreakerRules, GateRules
from strategies.java.pulsar_versions_and_defaults import PulsarRelease
from strategies.patterns_and_windows import Window, patterns, read_windows
from strategies.settings import Setting

_NAMESPACE = re.compile(r"[^/\s]+/[^/\s]+")
_ACTIONS = ("unload", "transfer", "split")
#: Failed moves within `BreakerRules.within_ms` that pause the executor.
_BREAKER_FAILURES = 5
#: Longest time that a moved bundle with clients and without an owner holds back other moves of its
#: namespace.
_UNOWNED_HOLD_MS = 120_000
#: What calls to Pulsar, with their repetitions, may take at most in one step.
_STILL_S = 300.0


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """Lists are texts with commas between their entries."""

    state: Annotated[
        str,
        Setting("Folder of the journal and the progress; only one executor at a time can use it"),
    ] = "/var/lib/pulsar-rebalancer/executor"
    actions: Annotated[
        str, Setting("Actions that the executor may apply; throttle is never applied")
    ] = "unload,transfer,split"
    allow: Annotated[
        str,
        Setting(
            "Namespaces whose bundles may move or split, for example orders/*,t/ns; empty = all"
        ),
    ] = ""
    deny: Annotated[
        str, Setting("Namespaces whose bundles must not move or split; overrides `allow`")
    ] = ""
    windows: Annotated[
        str,
        Setting(
            "Times (UTC) at which bundles may move: [Mon-Fri ]22:00-06:00, with commas "
            "between; empty = always"
        ),
    ] = ""
    approval: Annotated[
        Literal["none", "required"],
        Setting(
            "`required`: a command waits until a person has approved its plan on topics.approvals"
        ),
    ] = "none"
    max_concurrent: Annotated[
        int, Setting("Maximum number of commands applied in parallel", "", ge=1, le=64)
    ] = 4
    max_per_minute: Annotated[
        int,
        Setting(
            "Maximum number of commands started per minute; 0 = no limit", "", ge=0, le=100_000
        ),
    ] = 120
    arrival_timeout_ms: Annotated[
        int,
        Setting(
            "Maximum time to look up the new owner of an unloaded bundle; without clients it "
            "has none",
            "ms",
            ge=0,
            le=600_000,
        ),
    ] = 5_000
    repairs: Annotated[
        int,
        Setting(
            "Maximum number of bundles per hour that are unloaded once more because they went to "
            "another broker than their destination; 0 = none",
            "",
            ge=0,
            le=100_000,
        ),
    ] = 60
    gate_ms: Annotated[
        int,
        Setting(
            "Before a move, the leader and the brokers concerned must have read metadata, at most "
            "this long ago and within this time; 0 = no such check",
            "ms",
            ge=0,
            le=600_000,
        ),
    ] = 5_000
    settle_ms: Annotated[
        int,
        Setting("No move begins for this time after a broker was lost", "ms", ge=0, le=3_600_000),
    ] = 30_000
    breaker_pause_ms: Annotated[
        int,
        Setting(
            "Pause after 5 failed moves within 10 minutes; then one move is tried, and its success "
            "ends the pause",
            "ms",
            ge=1_000,
            le=86_400_000,
        ),
    ] = 120_000
    measure_ms: Annotated[
        int,
        Setting(
            "Maximum time to wait for the first message after a move, to measure what it costs; "
            "0 = nothing is measured",
            "ms",
            ge=0,
            le=600_000,
        ),
    ] = 3_000


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Rules that guard the cluster from moves. `repairs`: an hour. Zero is off, everywhere."""

    gate: GateRules = GateRules()
    breaker: BreakerRules = BreakerRules()
    repairs: int = 0
    unowned_hold_ms: int = 0


@dataclass(frozen=True)
class ExecutorConfig:
    """The cluster that an executor serves, the rules, whether it may act at all, the key it
    demands, the file that pauses it.

    `approvals_key`: the key of approval records; without one, none is read. `approval_required`:
    commands wait for one. `release`: of the brokers; None: they are asked.
    """

    cluster: str
    rules: AdmissionRules = AdmissionRules()
    apply: bool = False
    key: SigningKey | None = None
    pause_file: Path | None = None
    at_once: int = 4
    limits: WireLimits = DEFAULT_LIMITS
    approvals_key: SigningKey | None = None
    approval_required: bool = False
    guard: GuardRules = GuardRules()
    release: PulsarRelease | None = None


def admission_rules(settings: ExecutorSettings) -> AdmissionRules:
    """The parsed lists. Raises SettingsError with all errors in them."""
    complaints: list[str] = []
    actions = patterns(settings.actions)
    complaints += [
        f"executor.actions: {action} cannot be carried out; choose from {', '.join(_ACTIONS)}"
        for action in actions
        if action not in _ACTIONS
    ]
    for name in ("allow", "deny"):
        for pattern in patterns(getattr(settings, name)):
            if pattern != "*" and not _NAMESPACE.fullmatch(pattern):
                complaints.append(
                    f"executor.{name}: {pattern} is no tenant/namespace; * may stand for any "
                    "text, as in orders/*"
                )
    windows: tuple[Window, ...] = ()
    try:
        windows = read_windows(settings.windows, "executor.windows")
    except SettingsError as error:
        complaints += error.complaints
    raise_complaints(complaints)
    return AdmissionRules(
        actions=frozenset(actions),
        allow=patterns(settings.allow),
        deny=patterns(settings.deny),
        windows=windows,
    )


def guard_rules(settings: ExecutorSettings) -> GuardRules:
    """The settings about the gate, the breaker and repairs."""
    return GuardRules(
        GateRules(settings.gate_ms, settings.settle_ms),
        BreakerRules(_BREAKER_FAILURES, pause_ms=settings.breaker_pause_ms),
        settings.repairs,
        _UNOWNED_HOLD_MS,
    )


def longest_step_s(given: ExecutorSettings) -> float:
    """Longest time (s) between two steps of a loop that works: its commands wait for their turn
    and for new owners.
    """
    turns_s = given.max_concurrent * 60 / given.max_per_minute if given.max_per_minute else 0.0
    # A repaired move is looked for twice.
    return _STILL_S + turns_s + (2 * given.arrival_timeout_ms + given.measure_ms) / 1000


def check_approval(settings: ExecutorSettings, key: SigningKey | None) -> None:
    """Raises SettingsError if the executor waits for approvals and has no key to check them."""
    if settings.approval == "required" and key is None:
        raise SettingsError(
            [
                "executor.approval: required, and signing.approvals_key_file is empty; write a key "
                "with: openssl rand -hex 32 > FILE, chmod 600 FILE, and set "
                "signing.approvals_key_file = FILE here and where people approve"
            ]
        )


def state_folder(settings: ExecutorSettings) -> Path:
    """The folder of the journal and the positions. Raises SettingsError."""
    if not settings.state.startswith("/") or "\0" in settings.state:
        raise SettingsError(
            [
                f"executor.state: {settings.state!r} is no absolute path; name a folder of "
                "this machine"
            ]
        )
    return Path(settings.state)


def pause_file(settings: ExecutorSettings) -> Path:
    """The file that pauses the executor while it exists."""
    return state_folder(settings) / "pause"
