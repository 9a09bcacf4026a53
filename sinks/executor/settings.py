"""What an executor may do, how fast, and when; and where it keeps what it must not forget."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from sinks.wire.signing import SigningKey
from sinks.wire.size_limits import DEFAULT_LIMITS, WireLimits
from strategies.admission import AdmissionRules
from strategies.errors import SettingsError
from strategies.limits.names import patterns
from strategies.limits.windows import Window, read_windows
from strategies.settings import Setting

_NAMESPACE = re.compile(r"[^/\s]+/[^/\s]+")
_ACTIONS = ("unload", "transfer", "split")


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
    pause_file: Annotated[
        str,
        Setting(
            "While this file exists the executor refuses commands; empty = `pause` in the "
            "state folder"
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


@dataclass(frozen=True)
class ExecutorConfig:
    """The cluster that an executor serves, the rules, whether it may act at all, the key it
    demands, the file that pauses it.

    `approvals_key`: the key of approval records; without one, none is read. `approval_required`:
    commands wait for one.
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
    if complaints:
        raise SettingsError(complaints)
    return AdmissionRules(
        actions=frozenset(actions),
        allow=patterns(settings.allow),
        deny=patterns(settings.deny),
        windows=windows,
    )


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
    return Path(settings.pause_file) if settings.pause_file else state_folder(settings) / "pause"
